"""A client of streams: one request, and its events as they come in."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, Self


class Event(NamedTuple):
    """One server-sent event, and when it came; `name` is "" for a value."""

    name: str
    data: Any
    at: float


class Reader:
    """One request on a connection of its own. A context manager; leaving it hangs up."""

    def __init__(self, port: int, path: str, asked: Any, **headers: str) -> None:
        self._port = port
        body = json.dumps(asked).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: test",
            f"Content-Length: {len(body)}",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        self._request = "\r\n".join([*lines, "", ""]).encode() + body
        self.status = 0
        self.headers: dict[str, str] = {}
        self.raw = b""

    async def __aenter__(self) -> Self:
        self._in, self._out = await asyncio.open_connection("127.0.0.1", self._port)
        self._out.write(self._request)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._out.transport.abort()

    async def head(self) -> Self:
        """Until the head has come."""
        head = (await self._in.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.status = int(head[0].split()[1])
        pairs = (line.partition(": ") for line in head[1:] if line)
        self.headers = {name.lower(): value for name, _, value in pairs}
        return self

    async def chunks(self) -> AsyncIterator[bytes]:
        """The pieces of the body as they come, to its end; raises where that is missing."""
        while size := int(await self._in.readline(), 16):
            yield (await self._in.readexactly(size + 2))[:-2]
        await self._in.readline()

    async def body(self) -> bytes:
        """All of a body of known length."""
        return await self._in.readexactly(int(self.headers["content-length"]))

    async def events(self) -> AsyncIterator[Event]:
        """The events as they come: each in one chunk of its own."""
        async for chunk in self.chunks():
            lines = chunk.decode().split("\n")
            assert lines[-2:] == ["", ""], f"no event: {chunk!r}"
            if lines[0].startswith(":"):
                continue
            name = lines.pop(0).removeprefix("event: ") if lines[0].startswith("event: ") else ""
            (data,) = (line.removeprefix("data: ") for line in lines if line)
            yield Event(name, json.loads(data), time.monotonic())

    async def all(self) -> list[Event]:
        """Head and events to the end."""
        await self.head()
        assert self.status == 200, await self.body()
        return [event async for event in self.events()]

    async def at_end(self) -> bool:
        """Whether the server closes the connection now."""
        return not await asyncio.wait_for(self._in.read(1), 5.0)
