"""One ModelStreamInfer: many requests, and the answers of each, on one stream.

Requests are taken as they come, so that they are batched together. An answer waits for those of the
requests before it, since clients may count on that order; a request that is answered value by value
has no place in it and holds up nobody. What a client does not read holds back its own stream alone.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import grpc

from broker.payload.tensor_bodies import Buffer
from broker.wire import log
from gateway.problems import Problem, grpc_code
from gateway.rpc.call import RpcCall
from gateway.rpc.intake import Intake
from gateway.rpc.wire import on_stream

MAX_CALLS = 256
"""Of one stream, unanswered or not yet sent; beyond it the stream is not read."""
UNREAD_S = 30.0
"""For a client to take one message; one that does not read is cut off."""


class _Message(NamedTuple):
    """What is to be sent next, or said instead of it where errors end the stream."""

    data: bytes
    call: RpcCall
    size: int = 0
    is_last: bool = True
    said: Problem | None = None


DRAINING = "this gateway is shutting down"

Accept: TypeAlias = Callable[[bytes, "Exchange"], RpcCall | None]
"""Makes a call of a message; None where it is answered already."""


class Exchange:
    """See the module; a `Sink`."""

    takes_streams = True

    def __init__(
        self, context: Any, intake: Intake, accept: Accept, *, errors_as_status: bool
    ) -> None:
        """`errors_as_status`: the first error ends the stream, as its status."""
        self._context = context
        self._intake = intake
        self._accept = accept
        self._errors_as_status = errors_as_status
        self._out: asyncio.Queue[_Message | None] = asyncio.Queue()  # None: look again
        self._room = asyncio.Semaphore(MAX_CALLS)
        self._open: set[RpcCall] = set()
        self._order: deque[RpcCall] = deque()  # those whose only answer is to come
        self._ready: dict[RpcCall, _Message] = {}  # of these, answers that wait for their turn
        self._is_read = False
        self._broken = False
        self._draining = False

    async def run(self) -> None:
        """To the end of the stream, from whichever side it comes."""
        reader = asyncio.ensure_future(self._read())
        try:
            while self._open or not (self._is_read or self._draining):
                message = await self._out.get()
                if message is not None:
                    await self._send(message)
                if self._broken:
                    await self._context.abort(grpc.StatusCode.INTERNAL, "the gateway failed")
            if not self._is_read:
                await self._context.abort(grpc.StatusCode.UNAVAILABLE, DRAINING)
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
            for call in list(self._open):
                call.gone()

    async def _read(self) -> None:
        try:
            while not self._draining:
                await self._room.acquire()
                if not self._take(await self._intake.read_next(self._context)):
                    self._is_read = True
                    break
        except grpc.aio.AbortError:  # an error has ended the stream
            pass
        except Exception:  # a bug: loud, and the client does not wait for what will not come
            log.bug("exchange_failed")
            self._broken = True
        finally:
            self._out.put_nowait(None)

    def _take(self, body: bytes | None) -> bool:
        """Apart, so that nothing holds the message while the next one is waited for."""
        if body is None:
            return False
        call = self._accept(body, self)
        if call is not None:
            call.run(body)
        return True

    async def _send(self, message: _Message) -> None:
        if message.said is not None and self._errors_as_status:
            code = grpc.StatusCode[grpc_code(message.said.status)]
            await self._context.abort(code, message.said.body.decode())
        try:
            async with asyncio.timeout(UNREAD_S):
                await self._context.write(message.data)
        except TimeoutError:
            text = f"an answer was not read for {UNREAD_S:g} s"
            await self._context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        message.call.taken(message.size)
        if message.is_last:
            self._close(message.call)

    def _close(self, call: RpcCall) -> None:
        self._open.discard(call)
        self._room.release()

    def drain(self) -> None:
        """Read no more, answer what is held, and end."""
        self._draining = True
        self._out.put_nowait(None)

    # -------------------------------------------------------------- what calls say

    def begin(self, call: RpcCall) -> None:
        """See `Sink`."""
        self._open.add(call)
        self._order.append(call)

    def send(self, call: RpcCall, pieces: Sequence[Buffer], size: int, *, is_last: bool) -> None:
        """See `Sink`."""
        self._put(_Message(b"".join(on_stream(pieces)), call, size, is_last))

    def end(self, call: RpcCall) -> None:
        """See `Sink`."""
        self._leave_order(call)
        self._close(call)
        self._out.put_nowait(None)

    def fail(self, call: RpcCall, said: Problem) -> None:
        """See `Sink`."""
        self._put(_Message(call.oip.write_error(said.body.decode()), call, said=said))

    def abort(self) -> None:
        """See `Sink`."""
        self._broken = True
        self._out.put_nowait(None)

    def _put(self, message: _Message) -> None:
        if message.call.is_streaming:
            self._out.put_nowait(message)
            self._leave_order(message.call)
        else:
            self._ready[message.call] = message
            self._put_ready()

    def _leave_order(self, call: RpcCall) -> None:
        if call in self._order:
            self._order.remove(call)
            self._put_ready()

    def _put_ready(self) -> None:
        order, ready = self._order, self._ready
        while order and order[0] in ready:
            self._out.put_nowait(ready.pop(order.popleft()))
