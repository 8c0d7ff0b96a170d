"""Deadlines: whatever happens, one answer, at the latest shortly after."""

from collections.abc import Callable

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.wheel import SLOT_S
from tests.unit.broker.core.driver import Driver, pipeline

Make = Callable[..., Driver]

LATE = ErrorCode.DEADLINE_EXCEEDED


def test_one_that_waits_is_answered_when_its_time_is_over(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.submit()
    driver.submit(left_s=60.0)
    (seq,) = driver.submit(left_s=0.5)
    driver.run(0.5 - 1e-6)
    assert seq not in driver.answered()
    driver.run(2 * SLOT_S)
    assert driver.failure(seq) is LATE
    driver.finish_all()
    assert sorted(driver.answered()) == [1, 2, 3]


def test_one_that_runs_is_answered_and_its_result_dropped(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=2)
    long, short = driver.submit(1, tick=False) + driver.submit(1, left_s=0.5)
    driver.run(0.6)
    assert driver.failure(short) is LATE
    stage = driver.ledger.pipelines["p"].stages[0]
    assert (stage.leased, driver.ledger.pipelines["p"].items) == (1, 1)
    driver.finish()
    assert driver.result(long) == b"1"


def test_one_that_went_back_into_the_queue(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    (seq,) = driver.submit(left_s=0.5)
    driver.lose(b"w1")
    driver.run(0.3)
    assert driver.answered() == []
    driver.run(0.3)
    assert driver.failure(seq) is LATE
    driver.worker(b"w2")
    driver.tick()
    assert driver.payloads(b"w2") == []


def test_at_a_later_stage(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a")
    (seq,) = driver.submit(left_s=0.5)
    driver.finish(b"wa")
    driver.run(0.6)
    assert driver.failure(seq) is LATE
    assert len(driver.the_answer(seq).spans) == 2, "the stage that ran is told"


def test_one_that_came_too_late_already(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    (seq,) = driver.submit(left_s=-5.0)
    driver.run(0.1)
    assert driver.failure(seq) is LATE
    assert len(driver.answers[b"g1", seq]) == 1


def test_expiry_is_on_the_shells_timetable(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.submit(left_s=0.033)
    driver.tick()
    assert driver.scheduler.next_deadline() <= driver.now + 0.033 + SLOT_S


def test_one_that_can_no_longer_be_met_is_answered_before_dispatch(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1", timings=[(1, 0.2)] * 3, repeatable=False)
    driver.submit(1, left_s=60.0)
    (hopeless,) = driver.submit(left_s=0.3, again=True)
    (fine,) = driver.submit(left_s=60.0)
    driver.now += 0.15
    driver.finish(b"w1", run_s=0.2)
    assert driver.failure(hopeless) is LATE, "at once, not at its deadline"
    assert driver.payloads(b"w1") == [[fine]], "and it takes no slot"
    assert driver.ledger.counters["dropped_hopeless"] == 1
    driver.finish_all()


def test_the_time_of_the_stages_that_follow_counts(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a", timings=[(1, 0.01)] * 3)
    driver.worker(b"wb", "b", by=b"s2", timings=[(1, 0.5)] * 3)
    driver.submit(2, left_s=60.0)
    (hopeless,) = driver.submit(left_s=0.3, again=True)
    driver.finish(b"wa", run_s=0.01)
    driver.finish(b"wa", run_s=0.01)
    assert driver.failure(hopeless) is LATE
    driver.finish_all()


@pytest.mark.parametrize("where", ["queued", "leased", "ahead"])
def test_a_cancelled_one_gets_no_answer_and_no_slot(broker: Make, where: str) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=2)
    driver.worker(b"wb", "b", by=b"s2", max_batch_size=2)
    driver.submit(6)
    seq = {"leased": 1, "ahead": 3, "queued": 5}[where]
    driver.cancel(seq)
    driver.cancel(seq)
    driver.finish_all()
    assert sorted(driver.answered()) == [n for n in range(1, 7) if n != seq]
    assert driver.ledger.counters["cancelled"] == 1
    assert driver.ledger.pipelines["p"].items == 0
    assert driver.ledger.pipelines["p"].bytes == 0


def test_a_cancelled_batch_does_not_go_on_to_the_next_stage(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a")
    driver.worker(b"wb", "b", by=b"s2")
    (seq,) = driver.submit()
    driver.cancel(seq)
    driver.finish(b"wa")
    assert driver.payloads(b"wb") == []


def test_many_that_expire_at_once(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_items=10_000))
    driver.gateway()
    driver.worker()
    driver.submit(1000, left_s=0.5)
    driver.run(0.6)
    assert len(driver.answered()) == 1000
    assert {driver.failure(seq) for seq in driver.answered()} == {LATE}
    assert len(driver.ledger.wheel) == 0
