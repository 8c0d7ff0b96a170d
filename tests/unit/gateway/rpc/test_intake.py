"""Messages that come in, to a server of gRPC from its own clients."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from gateway.rpc.intake import TRIM_BYTES, Intake, NoRoom, places_for

TIMEOUT_S = 30.0
LONG_S = 1000.0


class Echo:
    """A server with one intake, and clients of it."""

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self._begun: asyncio.Queue[None] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Echo"]:
        server = grpc.aio.server()
        handlers = {
            "Once": grpc.stream_unary_rpc_method_handler(self._once),
            "Stream": grpc.stream_stream_rpc_method_handler(self._stream),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Echo", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as self.channel:
            yield self
        await server.stop(None)

    async def _once(self, _requests: Any, context: Any) -> bytes:
        self._begun.put_nowait(None)
        try:
            return await self.intake.read(context)
        except NoRoom as error:
            await context.abort(error.code, str(error))
            raise AssertionError from None

    async def _stream(self, _requests: Any, context: Any) -> None:
        self._begun.put_nowait(None)
        while (body := await self.intake.read_next(context)) is not None:
            await context.write(body)

    def ask(self, body: bytes = b"now") -> Any:
        """A call that sends its message at once."""
        return self.channel.unary_unary("/t.Echo/Once")(body, timeout=TIMEOUT_S)

    def ask_late(self, send: asyncio.Event) -> Any:
        """One that does so when it is told to."""
        return self.channel.stream_unary("/t.Echo/Once")(_late(send), timeout=TIMEOUT_S)

    async def begun(self) -> None:
        """The server has one call more."""
        await asyncio.wait_for(self._begun.get(), TIMEOUT_S)


async def _late(send: asyncio.Event) -> AsyncIterator[bytes]:
    await send.wait()
    yield b"late"


def run(intake: Intake, test: Any) -> None:
    async def whole() -> None:
        async with Echo(intake).running() as echo:
            await test(echo)

    asyncio.run(whole())


async def refusal(call: Coroutine[Any, Any, bytes]) -> tuple[Any, str]:
    with pytest.raises(grpc.RpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


def test_a_message_waits_for_a_place() -> None:
    async def test(echo: Echo) -> None:
        send = asyncio.Event()
        late = echo.ask_late(send)
        await echo.begun()
        others = [echo.ask() for _ in range(3)]
        for _ in others:
            await echo.begun()
        assert not any(other.done() for other in others)
        send.set()
        assert await late == b"late"
        assert [await other for other in others] == [b"now"] * 3

    run(Intake(1, LONG_S, wait_s=TIMEOUT_S), test)


def test_a_message_that_finds_no_place_is_refused() -> None:
    async def test(echo: Echo) -> None:
        send = asyncio.Event()
        late = [echo.ask_late(send) for _ in range(2)]
        for _ in late:
            await echo.begun()
        code, text = await refusal(echo.ask())
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "no more than 2 messages come in at a time" in text
        send.set()
        assert [await each for each in late] == [b"late"] * 2
        assert await echo.ask() == b"now"

    run(Intake(2, LONG_S, wait_s=0.1, slow_s=LONG_S), test)


def test_who_stalls_does_not_lock_others_out() -> None:
    async def test(echo: Echo) -> None:
        stalled = echo.ask_late(asyncio.Event())
        await echo.begun()
        await refusal(echo.ask())
        code, text = await refusal(stalled)
        assert (code, "slowly" in text) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert await echo.ask() == b"now"

    run(Intake(1, LONG_S, wait_s=0.1, slow_s=0.0), test)


def test_a_message_that_does_not_arrive() -> None:
    async def test(echo: Echo) -> None:
        stalled = echo.ask_late(asyncio.Event())
        await echo.begun()
        while not stalled.done():  # until its read has begun, there is none to end
            echo.intake.tick(time.monotonic() + LONG_S)
            await asyncio.sleep(0.01)
        code, text = await refusal(stalled)
        assert (code, text) == (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "the message did not arrive in time",
        )
        assert await echo.ask() == b"now"

    run(Intake(1, LONG_S, wait_s=TIMEOUT_S), test)


def test_calls_that_are_cancelled_leave_their_places() -> None:
    async def test(echo: Echo) -> None:
        stalled = [echo.ask_late(asyncio.Event()) for _ in range(3)]  # one comes in, two wait
        for _ in stalled:
            await echo.begun()
        for each in stalled:
            each.cancel()
        assert await echo.ask() == b"now"

    run(Intake(1, LONG_S, wait_s=TIMEOUT_S), test)


def test_streams_that_are_idle_have_no_place() -> None:
    async def test(echo: Echo) -> None:
        streams = [echo.channel.stream_stream("/t.Echo/Stream")() for _ in range(4)]
        for stream in streams:
            await stream.write(b"first")
            assert await stream.read() == b"first"
        assert await echo.ask() == b"now"
        for stream in streams:
            await stream.write(b"second")
            assert await stream.read() == b"second"
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF

    run(Intake(1, LONG_S, wait_s=TIMEOUT_S, idle_s=0.05), test)


def test_memory_is_given_back_when_much_has_come() -> None:
    intake = Intake(1, LONG_S)

    async def test(echo: Echo) -> None:
        assert not intake.tick(time.monotonic())
        piece = bytes(1 << 21)
        for _ in range(-(-TRIM_BYTES // len(piece))):
            assert await echo.ask(piece)
        if intake.tick(time.monotonic()):  # only glibc keeps it
            intake.trim()
        assert not intake.tick(time.monotonic())

    run(intake, test)


@pytest.mark.parametrize(("size", "places"), [(1 << 26, 16), (1 << 30, 1), (1 << 40, 1)])
def test_how_many_come_in_together(size: int, places: int) -> None:
    assert places_for(size) == places
