"""Connections to one server, each of which carries one request at a time or none."""

import asyncio
import ssl
from typing import Protocol, cast

from millstream.bench.answers import Answer, Reader
from millstream.bench.target import Target, place_of, tls_of

IDLE = -1

OPENED_AT_ONCE = 64
"""A server's queue of connections that it has not accepted is short, and one that overflows costs a
second."""


class Owner(Protocol):
    """Who is told what becomes of connections."""

    def answered(self, connection: "Connection", answer: Answer) -> None:
        """A complete answer came; `number` is still that of its request."""

    def misread(self, connection: "Connection", why: str) -> None:
        """What came is no answer; the connection is about to end."""

    def lost(self, connection: "Connection") -> None:
        """It has ended, and not from this side."""


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    __slots__ = ("_owner", "_reader", "given_up", "number", "transport")

    transport: asyncio.Transport

    def __init__(self, owner: Owner, *, without_body: bool) -> None:
        self._owner = owner
        self._reader = Reader(without_body=without_body)
        self.number = IDLE
        """Of the request that it carries."""
        self.given_up = False
        """Closed from this side."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            answer = self._reader.feed(data)
        except ValueError as error:
            self._owner.misread(self, str(error))
            self.transport.abort()
            return
        if answer is not None and self.number != IDLE:
            self._owner.answered(self, answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.given_up:
            return
        answer = self._reader.end()
        if answer is not None and exc is None and self.number != IDLE:
            self._owner.answered(self, answer._replace(closes=True))
        self._owner.lost(self)

    def give_up(self) -> None:
        """End it; its owner is not told."""
        self.given_up = True
        self.transport.abort()


class Dialler:
    """Opens connections to one target for one owner."""

    def __init__(self, target: Target, owner: Owner) -> None:
        self._place = place_of(target.url)
        self._tls: ssl.SSLContext | None = tls_of(target)
        self._owner = owner
        self._without_body = target.method == "HEAD"
        self._loop = asyncio.get_running_loop()
        self.opened = 0

    async def open(self) -> Connection:
        """One more. Raises OSError where nobody can be connected to."""
        place = self._place

        def make() -> Connection:
            return Connection(self._owner, without_body=self._without_body)

        if place.socket:
            _, connection = await self._loop.create_unix_connection(make, place.socket)
        else:
            _, connection = await self._loop.create_connection(
                make, place.host, place.port, ssl=self._tls
            )
        self.opened += 1
        return connection

    async def open_many(self, count: int) -> list[Connection]:
        """So many of them, some at a time."""
        opened: list[Connection] = []
        while len(opened) < count:
            wanted = min(OPENED_AT_ONCE, count - len(opened))
            opened += await asyncio.gather(*(self.open() for _ in range(wanted)))
        return opened
