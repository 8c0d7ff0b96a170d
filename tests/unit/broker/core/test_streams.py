"""Items that are answered value by value: what goes out, and how each of them ends."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.core.config import StageConfig
from broker.core.states import ItemState
from broker.wire.errors import ErrorCode
from broker.wire.frames import blob
from broker.wire.messages import (
    Answers,
    Bye,
    Credit,
    Dismiss,
    Failure,
    Kill,
    Ref,
    Renew,
    StreamCredit,
    Streamed,
    StreamKey,
    StreamStop,
    Values,
    WorkerBeat,
    WorkerDraining,
)
from broker.wire.window import WINDOW_BYTES, WINDOW_VALUES
from tests.unit.broker.core.driver import Driver, pipeline

Broker = Callable[..., Driver]


@pytest.fixture
def driver(broker: Broker) -> Driver:
    """One worker, one gateway; a batch of at most two."""
    return opened(broker(p=pipeline("a", stream_idle_s=5.0)))


def opened(driver: Driver, **worker: Any) -> Driver:
    driver.gateway()
    driver.worker(max_batch_size=2, **worker)
    return driver


def stopped(driver: Driver, worker: bytes = b"w1") -> list[StreamKey]:
    """All that this worker was told to stop."""
    return [key for told in driver.told(worker, StreamStop) for key in told.streams]


class TestValues:
    def test_go_out_as_they_come_and_the_end_is_the_one_answer(self, driver: Driver) -> None:
        (seq,) = driver.submit(left_s=9.0)
        batch = driver.stream()
        assert driver.items()[seq].state is ItemState.STREAMING
        assert not driver.answered()
        driver.step(batch, 1, b"1")
        first = driver.values[b"g1", seq][0]
        assert (first.version, len(first.spans)) == ("1", 2)
        driver.step(batch, 2, b"2")
        assert driver.streamed(seq) == [b"1", b"2"]
        driver.step(batch, 3, Streamed(2))
        assert driver.result(seq) == Streamed(2)
        assert driver.ledger.pipelines["p"].bytes == 0

    def test_of_one_turn_travel_together_and_before_their_end(self, driver: Driver) -> None:
        driver.submit(2)
        batch = driver.stream()
        for place in (0, 1):
            driver.step(batch, 1, b"1", place=place, tick=False)
            driver.step(batch, 2, Streamed(1), place=place, tick=False)
        driver.tick()
        kinds = [type(each) for each in driver.sent[b"g1"] if isinstance(each, Values | Answers)]
        assert kinds == [Values, Answers]
        assert sorted(driver.answered()) == [1, 2]

    def test_an_error_before_or_after_them_is_the_answer(self, driver: Driver) -> None:
        one, two = driver.submit(2)
        batch = driver.stream()
        driver.step(batch, 1, Failure(ErrorCode.REJECTED, "no", 422))
        assert driver.failure(one) is ErrorCode.REJECTED
        driver.step(batch, 1, b"1", place=1)
        driver.step(batch, 2, Failure(ErrorCode.WORKER_ERROR, "it raised"), place=1)
        assert driver.failure(two) is ErrorCode.WORKER_ERROR
        assert not stopped(driver)

    def test_that_come_twice_go_out_once(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        driver.step(batch, 1, b"1")
        driver.step(batch, 2, b"2")
        assert driver.streamed(seq) == [b"1", b"2"]

    def test_one_that_is_lost_ends_the_stream(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        driver.step(batch, 3, b"3")
        assert driver.failure(seq) is ErrorCode.WORKER_LOST
        assert driver.streamed(seq) == [b"1"]
        assert stopped(driver) == [(batch.lease, 0)]

    def test_of_a_stream_that_nobody_knows_stop_it(self, driver: Driver) -> None:
        driver.submit()
        batch = driver.stream()
        driver.step(batch, 1, b"1", place=7)
        assert stopped(driver) == [(batch.lease, 7)]

    def test_with_references_are_no_values(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        batch = driver.stream()
        driver.step(batch, 1, blob(b"", [Ref(5, 64, 1, 0, 8)]))
        assert driver.failure(seq) is ErrorCode.WORKER_ERROR

    def test_of_a_stage_that_is_not_the_last(self, broker: Broker) -> None:
        driver = opened(broker(p=pipeline("a", "b")))
        driver.worker(b"w2", "b", by=b"s2")
        (seq,) = driver.submit()
        batch = driver.stream()
        assert driver.failure(seq) is ErrorCode.WORKER_ERROR
        assert stopped(driver) == [(batch.lease, 0)]


class TestCredit:
    def test_what_is_on_its_way_counts_in_the_bytes(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        batch = driver.stream()
        before = driver.ledger.pipelines["p"].bytes
        for number in (1, 2, 3):
            driver.step(batch, number, b"x" * 100)
        assert driver.ledger.pipelines["p"].bytes == before + 300
        driver.receive(b"g1", Credit(driver.epoch, [(seq, 2), (99, 1)]))
        driver.tick()
        assert driver.ledger.pipelines["p"].bytes == before + 100
        (told,) = driver.told(b"w1", StreamCredit)
        assert told.taken == [(batch.lease, 0, 2)]
        driver.receive(b"g1", Credit(driver.epoch, [(seq, 2)]))  # with its beat
        assert driver.ledger.pipelines["p"].bytes == before + 100
        assert len(driver.told(b"w1", StreamCredit)) == 2, "the first may have been lost"

    @pytest.mark.parametrize(
        ("values", "size"), [(WINDOW_VALUES, 1), (1, WINDOW_BYTES), (2, WINDOW_BYTES - 1)]
    )
    def test_no_worker_may_go_beyond_it(self, driver: Driver, values: int, size: int) -> None:
        (seq,) = driver.submit()
        batch = driver.stream()
        for number in range(1, values + 1):
            driver.step(batch, number, b"x" * size)
        assert not driver.answered()
        driver.step(batch, values + 1, b"x")
        assert driver.failure(seq) is ErrorCode.WORKER_ERROR
        assert len(driver.streamed(seq)) == values

    def test_one_that_its_client_holds_back_is_not_idle(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        batch = driver.stream()
        for number in range(1, WINDOW_VALUES + 1):
            driver.step(batch, number, b"x")
        for _ in range(60):
            driver.receive(b"w1", WorkerBeat(driver.epoch, [], [], [(batch.lease, 0)]))
            driver.run(0.5)
        assert not driver.answered()
        driver.receive(b"g1", Credit(driver.epoch, [(seq, WINDOW_VALUES)]))
        for _ in range(22):
            driver.receive(b"w1", WorkerBeat(driver.epoch, [], [], [(batch.lease, 0)]))
            driver.receive(b"g1", Credit(driver.epoch, [(seq, WINDOW_VALUES)]))  # said again
            driver.run(0.5)
        assert driver.failure(seq) is ErrorCode.DEADLINE_EXCEEDED


class TestTime:
    def beat(self, driver: Driver, seconds: float, *streams: StreamKey) -> None:
        """So long the worker says nothing but that it has these."""
        for _ in range(round(seconds / 0.5)):
            driver.receive(b"w1", WorkerBeat(driver.epoch, [], [], list(streams)))
            driver.run(0.5)

    def test_the_deadline_is_for_the_first_value(self, driver: Driver) -> None:
        one, two = driver.submit(2, left_s=2.0)
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        self.beat(driver, 2.5, (batch.lease, 0), (batch.lease, 1))
        assert driver.failure(two) is ErrorCode.DEADLINE_EXCEEDED
        assert stopped(driver) == [(batch.lease, 1)]
        driver.step(batch, 2, b"2")
        driver.step(batch, 3, Streamed(2))
        assert driver.result(one) == Streamed(2)

    def test_then_each_value_has_as_long_again(self, driver: Driver) -> None:
        (seq,) = driver.submit(left_s=60.0)
        batch = driver.stream()
        for number in range(1, 5):
            driver.step(batch, number, b"x")
            self.beat(driver, 4.0, (batch.lease, 0))
        assert not driver.answered()
        self.beat(driver, 1.5, (batch.lease, 0))
        assert driver.failure(seq) is ErrorCode.DEADLINE_EXCEEDED
        assert stopped(driver) == [(batch.lease, 0)]

    def test_a_client_that_hangs_up_stops_it_in_the_same_turn(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        driver.cancel(seq)
        driver.tick()
        assert stopped(driver) == [(batch.lease, 0)]
        driver.step(batch, 2, b"2")  # it was on its way
        assert driver.streamed(seq) == [b"1"]

    def test_one_that_hung_up_before_it_opened(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        driver.cancel(seq)
        batch = driver.stream()
        assert stopped(driver) == [(batch.lease, 0)]

    def test_a_worker_that_hangs_in_a_step(self, broker: Broker) -> None:
        stages = {"a": StageConfig(forward_timeout_s=3.0)}
        driver = opened(broker(p=pipeline("a", stages=stages)))
        one, two = driver.submit(2, left_s=60.0)
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        (three,) = driver.submit()
        driver.run(3.5)
        assert not driver.answered()
        driver.run(1.0)
        (kill,) = driver.told(b"s1", Kill)
        assert kill.reason == "a step of a stream took longer than forward_timeout_s = 3"
        assert driver.failure(one) is ErrorCode.WORKER_LOST
        waiting = {seq: item.suspect for seq, item in driver.items().items()}
        assert waiting == {two: True, three: False}, "what it had not begun is not blamed"

    def test_a_worker_that_hangs_in_a_step_of_a_stream_that_nobody_wants(
        self, broker: Broker
    ) -> None:
        """The batch that waits for it is not blamed."""
        stages = {"a": StageConfig(forward_timeout_s=3.0)}
        driver = opened(broker(p=pipeline("a", stages=stages)))
        (gone,) = driver.submit()
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        driver.cancel(gone)
        (waits,) = driver.submit()
        driver.run(4.5)
        assert driver.told(b"s1", Kill)
        assert not driver.items()[waits].suspect

    def test_a_batch_that_waits_behind_streams_does_not_hang(self, broker: Broker) -> None:
        stages = {"a": StageConfig(forward_timeout_s=3.0)}
        driver = opened(broker(p=pipeline("a", stages=stages, stream_idle_s=60.0)))
        driver.submit(left_s=60.0)
        batch = driver.stream()
        (waits,) = driver.submit(left_s=60.0)
        lease = driver.batches[b"w1"][0].lease
        for number in range(1, 9):
            driver.step(batch, number, b"x")
            driver.run(0.9)
        driver.receive(b"w1", Renew(driver.epoch, lease))  # only now it begins
        for number in range(9, 11):
            driver.step(batch, number, b"x")
            driver.run(0.9)
        assert not driver.told(b"s1", Kill)
        driver.step(batch, 11, Streamed(10))
        driver.finish()
        assert driver.result(waits) == b"2"

    def test_a_call_that_hangs_beside_streams(self, broker: Broker) -> None:
        """Of a worker with an event loop, which goes on talking."""
        stages = {"a": StageConfig(forward_timeout_s=3.0)}
        driver = opened(broker(p=pipeline("a", stages=stages)))
        driver.submit(left_s=60.0)
        batch = driver.stream()
        (hung,) = driver.submit(left_s=60.0)
        driver.receive(b"w1", Renew(driver.epoch, driver.batches[b"w1"][0].lease))
        for number in range(1, 6):
            driver.step(batch, number, b"x")
            driver.run(0.9)
        assert driver.told(b"s1", Kill)
        assert driver.items()[hung].suspect


class TestLoss:
    def test_of_its_worker(self, driver: Driver) -> None:
        """What has sent a value ends, the other begins anew, alone."""
        one, two = driver.submit(2)
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        driver.lose(b"w1")
        driver.tick()
        assert driver.failure(one) is ErrorCode.WORKER_LOST
        driver.worker(b"w2", max_batch_size=2)
        driver.tick()
        again = driver.stream(b"w2")
        assert [item.attempt for item in again.items] == [2]
        driver.step(again, 1, b"1", worker=b"w2")
        driver.step(again, 2, Streamed(1), worker=b"w2")
        assert driver.result(two) == Streamed(1)

    def test_of_one_worker_after_the_other(self, broker: Broker) -> None:
        driver = broker(p=pipeline("a", attempts=2))
        driver.gateway()
        (seq,) = driver.submit()
        for worker in (b"w1", b"w2"):
            driver.worker(worker)
            driver.tick()
            driver.stream(worker)
            driver.run(0.1)
            driver.lose(worker)
        driver.tick()
        assert driver.failure(seq) is ErrorCode.WORKER_CRASHED

    def test_of_a_worker_whose_work_may_not_be_repeated(self, broker: Broker) -> None:
        driver = opened(broker(), repeatable=False)
        (seq,) = driver.submit()
        driver.stream()
        driver.lose(b"w1")
        driver.tick()
        assert driver.failure(seq) is ErrorCode.WORKER_LOST

    def test_of_its_gateway(self, driver: Driver) -> None:
        driver.submit()
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        driver.silent.add(b"g1")
        for _ in range(8):
            driver.receive(b"w1", WorkerBeat(driver.epoch, [], [], [(batch.lease, 0)]))
            driver.run(0.5)
        assert stopped(driver)[0] == (batch.lease, 0)

    def test_of_messages_is_noticed_by_beats(self, driver: Driver) -> None:
        """Either side may have lost what the other still has open."""
        (seq,) = driver.submit()
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        driver.receive(b"w1", WorkerBeat(driver.epoch, [], [], [(batch.lease, 0), (77, 3)]))
        driver.tick()
        assert stopped(driver) == [(77, 3)]
        driver.run(1.1)
        for _ in range(2):
            assert not driver.answered()
            driver.receive(b"w1", WorkerBeat(driver.epoch))
            driver.tick()
        assert driver.failure(seq) is ErrorCode.WORKER_LOST

    def test_results_of_a_worker_that_had_been_given_up(self, driver: Driver) -> None:
        """Its stream is not the item's any longer."""
        driver.submit()
        batch = driver.take()
        driver.lose(b"w1")
        driver.worker(b"w1", max_batch_size=2)
        driver.answer(b"w1", batch, lambda _: Streamed())
        driver.step(batch, 1, b"1")
        assert stopped(driver) == [(batch.lease, 0)]
        assert not driver.values[b"g1", 1]


class TestBounds:
    def test_a_worker_with_all_the_streams_that_it_takes_is_sent_nothing(
        self, broker: Broker
    ) -> None:
        driver = opened(broker(), max_streams=2)
        driver.submit(2)
        batch = driver.stream()
        driver.submit()
        assert not driver.batches[b"w1"]
        driver.step(batch, 1, Streamed(0))
        assert driver.payloads() == [[3]]

    def test_ordinary_batches_go_on_beside_streams(self, driver: Driver) -> None:
        driver.submit(2)
        driver.stream()
        more = driver.submit(4)
        driver.finish_all()
        assert [driver.result(seq) for seq in more] == [b"3", b"4", b"5", b"6"]


class TestDrain:
    def test_a_worker_stays_for_its_streams_within_bounds(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        batch = driver.stream()
        driver.worker(b"w2")
        driver.step(batch, 1, b"1")
        driver.receive(b"w1", WorkerDraining(driver.epoch))
        driver.run(3.0)
        assert not driver.told(b"w1", Dismiss)
        driver.run(1.0)
        assert driver.told(b"w1", Dismiss)
        driver.receive(b"w1", Bye(driver.epoch))
        driver.tick()
        assert driver.failure(seq) is ErrorCode.WORKER_LOST

    def test_a_worker_that_leaves_gives_back_what_has_sent_nothing(self, driver: Driver) -> None:
        (seq,) = driver.submit()
        driver.stream()
        driver.receive(b"w1", Bye(driver.epoch))
        assert not driver.items()[seq].suspect
        assert driver.items()[seq].attempts == 0

    def test_a_broker_ends_what_is_left(self, driver: Driver) -> None:
        one, two = driver.submit(2)
        batch = driver.stream()
        driver.step(batch, 1, b"1")
        driver.drain()
        driver.run(3.0)
        assert not driver.answered()
        driver.run(1.0)
        assert driver.failure(one) is driver.failure(two) is ErrorCode.DRAINING
        assert driver.stops == 1
