"""What a worker's streams come to: steps of iterators of every kind, windows, stops, epochs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Batch,
    BatchItem,
    Failure,
    Outcome,
    Renew,
    Steps,
    StreamCredit,
    Streamed,
    StreamStop,
    Welcome,
    WorkerHello,
)
from broker.wire.window import WINDOW_BYTES, WINDOW_VALUES, Window
from tests.unit.workers.batches import answers, item, run_batch
from workers import steps
from workers.api import Reject, Worker
from workers.checks import ContractError, shape_of
from workers.memory import SharedMemory
from workers.outcomes import value_encoder_for
from workers.session import WorkerSession
from workers.steps import Driven
from workers.streams import OpenStream
from workers.warmup import warm_up
from workers.work import Hooks

EPOCH = 7


def stream_of(iterator: Any) -> OpenStream:
    return OpenStream((1, 0), iterator, "r")


def run_out(iterator: Any, plugin: Worker | None = None) -> list[Outcome]:
    """All that a stream comes to."""
    encode = value_encoder_for(plugin or Worker(), "")
    stream = stream_of(iterator)
    outcomes: list[Outcome] = []
    while not outcomes or isinstance(outcomes[-1], bytes):
        outcomes.append(steps.step(stream, encode))
        stream.number += 1
    return outcomes


async def run_out_async(iterator: Any) -> list[Outcome]:
    encode = value_encoder_for(Worker(), "")
    stream = stream_of(iterator)
    outcomes: list[Outcome] = []
    while not outcomes or isinstance(outcomes[-1], bytes):
        outcomes.append(await steps.step_async(stream, encode))
        stream.number += 1
    return outcomes


class TestSteps:
    def test_values_are_json_of_one_line(self) -> None:
        values: list[Any] = [1, "two\n", {"three": [3.0, float("nan")]}, b"four", None]
        assert run_out(iter(values)) == [
            b"1", b'"two\\n"', b'{"three":[3.0,null]}', b'"Zm91cg=="', b"null", Streamed(5),
        ]  # fmt: skip

    def test_of_async_iterators(self) -> None:
        async def three() -> AsyncIterator[int]:
            for number in range(3):
                await asyncio.sleep(0)
                yield number

        wanted = [b"0", b"1", b"2", Streamed(3)]
        assert asyncio.run(run_out_async(three())) == wanted
        assert asyncio.run(run_out_async(iter(range(3)))) == wanted
        with asyncio.Runner() as runner:
            assert run_out(Driven(three(), runner)) == wanted

    def test_an_error_ends_it_and_tells_the_log_alone(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        def breaks() -> Iterator[int]:
            yield 1
            raise RuntimeError("a secret")

        value, failure = run_out(breaks())
        assert value == b"1"
        assert isinstance(failure, Failure)
        assert failure.code == ErrorCode.WORKER_ERROR
        assert "secret" not in failure.message
        logged = caplog.text
        assert failure.error_id in logged
        assert "a secret" in logged

    @pytest.mark.parametrize("is_raised", [True, False])
    def test_a_rejection_is_the_clients_fault(self, *, is_raised: bool) -> None:
        def rejects() -> Iterator[Any]:
            if is_raised:
                raise Reject("too long", 413)
            yield Reject("too long", 413)

        (failure,) = run_out(rejects())
        assert failure == Failure(ErrorCode.REJECTED, "too long", 413)

    def test_what_cannot_travel(self) -> None:
        (failure,) = run_out(iter([object()]))
        assert isinstance(failure, Failure)
        assert failure.code == ErrorCode.WORKER_ERROR

    def test_an_encode_of_the_plug_ins_own(self) -> None:
        class Own(Worker):
            def encode(self, result: Any, accept: str) -> Any:
                assert accept == "application/json"
                return result

        values = [("{\n}", "application/json"), "text", b"bytes", (b"1,", "application/json")]
        encoded = [(v[0].encode() if isinstance(v[0], str) else v[0], v[1]) if isinstance(v, tuple)
                   else v for v in values]  # fmt: skip
        *good, bad = run_out(iter(encoded), Own())
        assert good == [b"{}", b'"text"', b'"Ynl0ZXM="']
        assert isinstance(bad, Failure)


class TestClosing:
    def test_a_generator_lets_go(self) -> None:
        closed = []

        def holds() -> Iterator[int]:
            try:
                yield 1
            finally:
                closed.append("plain")

        async def holds_too() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                closed.append("async")

        async def advance_and_close(iterator: Any) -> None:
            stream = stream_of(iterator)
            await steps.step_async(stream, value_encoder_for(Worker(), ""))
            await steps.close_async(stream)

        asyncio.run(advance_and_close(holds()))
        asyncio.run(advance_and_close(holds_too()))
        with asyncio.Runner() as runner:
            stream = stream_of(Driven(holds_too(), runner))
            steps.step(stream, value_encoder_for(Worker(), ""))
            steps.close(stream)
        assert closed == ["plain", "async", "async"]
        steps.close(stream_of(iter([1])))  # which has nothing to close

    def test_one_that_raises_when_closed_harms_nobody(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        def insists() -> Iterator[int]:
            try:
                yield 1
            except GeneratorExit:
                yield 2

        stream = stream_of(insists())
        next(stream.iterator)
        steps.close(stream)
        assert "generator ignored GeneratorExit" in caplog.text


class TestBatches:
    def test_iterators_of_the_last_stage_are_streams(self) -> None:
        class Mixed(Worker):
            max_batch_size = 4

            def forward(self, batch: list[Any], *_: Any) -> list[Any]:
                return [iter(each) if isinstance(each, list) else each for each in batch]

        given = [item(b"[1]"), item(b"2"), item(b'"x"'), item(b"[]")]
        done = run_batch(Mixed(), given, first=True, last=True).done
        assert answers(done) == [Streamed(), 2, "x", Streamed()]
        assert {place: list(each) for place, each in done.streams.items()} == {0: [1], 3: []}
        assert not done.sample
        middle = run_batch(Mixed(), given[:1], first=True, last=False).done
        assert isinstance(middle.outcomes[0], Failure), "other stages do not stream"

    def test_max_streams_is_a_number(self) -> None:
        class Odd(Worker):
            max_streams = 0

            def forward(self, batch: list[Any], *_: Any) -> list[Any]:
                return batch

        with pytest.raises(ContractError, match="max_streams = 0"):
            shape_of(Odd())


class TestWindow:
    def test_of_values_and_of_bytes(self) -> None:
        window = Window()

        def state() -> tuple[int, bool, bool]:
            return window.bytes, window.is_half_full, window.is_open

        for _ in range(WINDOW_VALUES // 2):
            window.send(1)
        assert state() == (WINDOW_VALUES // 2, True, True)
        for _ in range(WINDOW_VALUES // 2):
            window.send(1)
        assert state() == (WINDOW_VALUES, True, False)
        window.take(1)
        window.take(1)
        assert state() == (WINDOW_VALUES - 1, True, True)
        assert window.take_all() == WINDOW_VALUES
        assert state() == (0, False, True)
        window.send(WINDOW_BYTES)
        assert state() == (WINDOW_BYTES, True, False)
        window.take(WINDOW_VALUES - 5)
        assert state() == (WINDOW_BYTES, True, False)
        window.take(WINDOW_VALUES + 5)
        assert state() == (0, False, True)


class TestSession:
    @pytest.fixture
    def session(self) -> WorkerSession:
        """Of a worker that may run two batches at once."""
        session = WorkerSession(WorkerHello(PROTOCOL_VERSION, b"sup", "a"), 0.0)
        session.warm(0.0, max_batch_size=2, concurrency=2, repeatable=True, timings=[])
        session.receive(Welcome(EPOCH, PROTOCOL_VERSION), 0.0)
        for lease in (1, 2):
            session.receive(
                Batch(EPOCH, lease, "p", True, True, [BatchItem(b"1", b"", 1.0)] * 2), 0.0
            )
        return session

    def open(self, session: WorkerSession) -> tuple[OpenStream, OpenStream, list[Any]]:
        held = session.take()
        assert held is not None
        one, two = (OpenStream((1, place), iter([]), "r") for place in (0, 1))
        said = session.finish(
            held, 0.0, outcomes=[Streamed(), Streamed()], run_s=0.1, sample=False,
            content_type="", opened=[one, two],
        )  # fmt: skip
        return one, two, said

    def test_steps_are_numbered_and_go_out_together(self, session: WorkerSession) -> None:
        one, two, _ = self.open(session)
        session.streams.advance(one, b"x")
        session.streams.advance(two, Streamed(0))
        session.streams.advance(one, b"y")
        (message,) = session.steps()
        assert isinstance(message, Steps)
        assert [(s.lease, s.place, s.number, s.outcome) for s in message.steps] == [
            (1, 0, 1, b"x"), (1, 1, 1, Streamed(0)), (1, 0, 2, b"y"),
        ]  # fmt: skip
        assert not session.streams.has_unsent
        assert session.streams.keys == [(1, 0)]
        assert two.is_over

    def test_calls_beside_them_begin_anew(self, session: WorkerSession) -> None:
        """The broker then counts their time from the moment in which it is told so."""
        first, second = session.take(), session.take()
        assert first is not None
        assert second is not None
        said = session.finish(
            first, 0.0, outcomes=[Streamed()] * 2, run_s=0.1, sample=False, content_type="",
            opened=[OpenStream((1, 0), iter([]), "r")],
        )  # fmt: skip
        assert Renew(EPOCH, 2) in said

    def test_a_full_window_waits_for_credit(self, session: WorkerSession) -> None:
        one, _, _ = self.open(session)
        woken = []
        one.wake = lambda: woken.append(one.may_step)
        for _ in range(WINDOW_VALUES):
            assert one.may_step
            session.streams.advance(one, b"x")
        assert not one.may_step
        session.receive(StreamCredit(EPOCH, [(1, 0, 3), (9, 9, 1)]), 0.0)
        assert woken == [True]

    def test_one_that_is_stopped_says_nothing_more(self, session: WorkerSession) -> None:
        one, two, _ = self.open(session)
        session.receive(StreamStop(EPOCH, [(1, 0), (9, 9)]), 0.0)
        assert one.is_over
        assert not one.may_step
        session.streams.advance(one, b"late")
        assert not session.streams.has_unsent
        assert two.may_step

    def test_another_broker_knows_none(self, session: WorkerSession) -> None:
        one, two, _ = self.open(session)
        session.streams.advance(one, b"x")
        running = session.take()
        assert running is not None
        session.receive(Welcome(EPOCH + 1, PROTOCOL_VERSION), 0.0)
        assert one.is_over
        assert two.is_over
        assert not session.streams.has_unsent
        late = OpenStream((2, 0), iter([]), "r")
        session.finish(
            running, 0.0, outcomes=[Streamed(), b"1"], run_s=0.1, sample=False, content_type="",
            opened=[late],
        )  # fmt: skip
        assert late.is_over
        assert not session.streams


def test_a_warm_up_takes_the_first_value_and_measures_nothing() -> None:
    class Streams(Worker):
        max_batch_size = 3
        example = 1
        taken = 0

        def forward(self, batch: list[Any], *_: Any) -> list[Any]:
            return [self.count() for _ in batch]

        def count(self) -> Iterator[int]:
            while True:
                self.taken += 1
                yield 1

    plugin = Streams()
    assert warm_up(Hooks(plugin, shape_of(plugin), SharedMemory(0))) == []
    assert plugin.taken == 2 * (1 + 3)
