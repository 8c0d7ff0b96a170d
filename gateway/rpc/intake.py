"""Messages that come in: so many at a time, since each may be as large as the gateway allows.

gRPC does not say how much of a message it holds before all of it is there. So a message is asked
for when there is a place for it, whatever its size will be; until then its client is held back by
HTTP/2's own windows. Small messages give their place back within the same turn of the loop.
"""

import asyncio
import ctypes
import time
from collections import deque
from typing import Any

import grpc

from gateway.bounds import DEFAULT_MAX_BYTES

WAIT_S = 2.0
"""For a place, before a call is refused."""
SLOW_S = 5.0
"""A message that takes longer gives way to one that would be refused for want of a place."""
IDLE_S = 0.5
"""A stream that brings nothing for so long has no place: most of those that are open are idle."""

TRIM_BYTES = 1 << 28
TRIM_S = 10.0
"""What messages were read into lies freed in the heaps of gRPC's threads, where malloc would keep
it for ever. It is given back when so much has come in, in a pause or after so long without one."""


class NoRoom(Exception):
    """The message cannot come in; the text says why, and `code` what that is over gRPC."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def places_for(max_body_bytes: int) -> int:
    """How many messages of at most this size may come in together: a gibibyte of them."""
    return max(1, DEFAULT_MAX_BYTES // max_body_bytes)


class Intake:
    """See the module. One event loop's."""

    def __init__(
        self,
        places: int,
        body_timeout_s: float,
        *,
        wait_s: float = WAIT_S,
        slow_s: float = SLOW_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._places = places
        self._body_timeout_s = body_timeout_s
        self._wait_s = wait_s
        self._slow_s = slow_s
        self._idle_s = idle_s
        self._free = places
        self._came_bytes = 0  # since memory was given back, at `_trim_s`
        self._trim_s = 0.0
        self._trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._coming: dict[asyncio.Task[Any], float] = {}  # since when, the oldest first
        self._ended: dict[asyncio.Task[Any], NoRoom] = {}  # why, until they notice

    async def read(self, context: Any) -> bytes:
        """The one message of a call; b"" where it ends without. Raises NoRoom."""
        try:
            await self._enter(self._wait_s)
        except TimeoutError:
            self._make_room()
            text = f"no more than {self._places} messages come in at a time, and others are coming"
            raise NoRoom(grpc.StatusCode.RESOURCE_EXHAUSTED, text) from None
        try:
            return await self._read(context)
        finally:
            self._leave()

    async def read_next(self, context: Any) -> bytes | None:
        """The next message of a stream, None at its end; waits for a place as long as it must."""
        await self._enter(None)
        has_place = True

        def leave() -> None:
            nonlocal has_place
            if has_place:
                has_place = False
                self._leave()

        idle = asyncio.get_running_loop().call_later(self._idle_s, leave)
        try:
            body: bytes = await context.read()
        finally:
            idle.cancel()
            leave()
        if body is grpc.aio.EOF:
            return None
        self._came_bytes += len(body)
        return body

    async def _read(self, context: Any) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self._coming[task] = time.monotonic()
        try:
            body: bytes = await context.read()
        except asyncio.CancelledError:
            why = self._ended.pop(task, None)
            if why is None:  # the client has gone
                raise
            task.uncancel()
            raise why from None
        finally:
            self._coming.pop(task, None)
        if body is grpc.aio.EOF:
            return b""
        self._came_bytes += len(body)
        return body

    # -------------------------------------------------------------- a few times a second

    def tick(self, now: float) -> bool:
        """End what takes too long; whether `trim` should be called, off the loop."""
        while self._coming:
            task, since = next(iter(self._coming.items()))
            if now - since < self._body_timeout_s:
                break
            text = "the message did not arrive in time"
            self._end(task, NoRoom(grpc.StatusCode.DEADLINE_EXCEEDED, text))
        is_quiet = self._free == self._places or now - self._trim_s >= TRIM_S
        if self._trim is None or self._came_bytes < TRIM_BYTES or not is_quiet:
            return False
        self._came_bytes = 0
        self._trim_s = now
        return True

    def trim(self) -> None:
        """Takes some milliseconds for each 100 MB."""
        self._trim(0)

    def _end(self, task: "asyncio.Task[Any]", why: NoRoom) -> None:
        del self._coming[task]
        self._ended[task] = why
        task.cancel()

    # -------------------------------------------------------------- places

    async def _enter(self, wait_s: float | None) -> None:
        """Take a place. Raises TimeoutError."""
        if self._free:
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(wait_s):
                await place
        except BaseException:
            if place.done() and not place.cancelled():  # given just now
                self._leave()
            else:
                place.cancel()
            raise

    def _leave(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _make_room(self) -> None:
        """End the message that has been coming in for the longest, if that is long."""
        now = time.monotonic()
        for task, since in self._coming.items():
            if now - since >= self._slow_s:
                text = "the message came in slowly, and others waited for its place"
                self._end(task, NoRoom(grpc.StatusCode.RESOURCE_EXHAUSTED, text))
            return
