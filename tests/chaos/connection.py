"""One HTTP connection of a client that trusts nobody: it notices every byte too many.

Reads what gateways send, and nothing else of HTTP. Not aiohttp's client, which drops what it did
not ask for.
"""

import asyncio
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from typing import Self

from msgspec import Struct

from tests.chaos.jobs import Job

HOST = "127.0.0.1"
PIECES = 16
"""In which a slow client sends its body."""


class Ended(Exception):
    """The connection has ended, in the middle of an answer or before one."""


class Answer(Struct, frozen=True):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The request that it says it answers."""
        return self.headers.get("x-request-id", "")

    @property
    def version(self) -> str:
        """The version that it says it is of."""
        return self.headers.get("x-model-version", "")

    @property
    def is_last(self) -> bool:
        """Whether the gateway ends the connection with it."""
        return self.headers.get("connection") == "close"


class Connection:
    """One connection, for one request after the other."""

    def __init__(self, port: int, reader: StreamReader, writer: StreamWriter) -> None:
        self.port = port
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        """Raises OSError where nobody listens."""
        return cls(port, *await asyncio.open_connection(HOST, port))

    def send(self, job: Job) -> None:
        """All of a request at once."""
        self._writer.write(_head(job) + job.body)

    async def send_slowly(self, job: Job, seconds: float) -> None:
        """The head, and then the body bit by bit, unless the connection ends: `receive` says so."""
        self._writer.write(_head(job))
        size = -(-len(job.body) // PIECES)
        for start in range(0, len(job.body), size):
            await asyncio.sleep(seconds / PIECES)
            if self._writer.is_closing():
                return
            self._writer.write(job.body[start : start + size])

    def send_half(self, job: Job) -> None:
        """The head, and the half of the body."""
        self._writer.write(_head(job) + job.body[: len(job.body) // 2])

    async def receive(self) -> Answer:
        """The next answer. Raises Ended."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")[:-2]
            headers = dict(line.lower().split(": ", 1) for line in lines)
            body = await self._reader.readexactly(int(headers["content-length"]))
        except (IncompleteReadError, OSError) as error:
            raise Ended from error
        return Answer(int(first.split()[1]), headers, body)

    async def listen(self, seconds: float) -> bytes:
        """For so long nothing should come: whatever does, b"" for nothing. Raises Ended."""
        try:
            async with asyncio.timeout(seconds):
                stray = await self._reader.read(1024)
        except TimeoutError:
            return b""
        except OSError as error:
            raise Ended from error
        if not stray:
            raise Ended
        return stray

    def close(self) -> None:
        """End it; what was sent still goes out."""
        self._writer.close()


def _head(job: Job) -> bytes:
    key = f"X-Api-Key: {job.key}\r\n" if job.key else ""
    return (
        f"POST /pipelines/chain HTTP/1.1\r\nHost: chaos\r\n{key}"
        f"X-Request-Id: {job.id}\r\nX-Timeout-Ms: {job.deadline_s * 1e3:.0f}\r\n"
        f"Content-Type: {job.content_type}\r\nContent-Length: {len(job.body)}\r\n\r\n"
    ).encode()
