"""What is taken in and what is refused: bounds, prediction, versions, and things sent twice."""

from collections.abc import Callable
from math import inf, nan

import pytest

from broker.core.config import StageConfig
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, Priority, Submit, SubmitItem
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline

Make = Callable[..., Driver]

FIFTY_MS = [(1, 0.050), (4, 0.050)]


def refusal(driver: Driver, seq: int) -> Failure:
    outcome = driver.result(seq)
    assert isinstance(outcome, Failure)
    return outcome


def test_items_beyond_the_bound_are_refused_with_a_time(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_items=3))
    driver.gateway()
    driver.worker()
    driver.submit(5)
    assert [driver.failure(seq) for seq in (4, 5)] == [ErrorCode.QUEUE_FULL] * 2
    assert refusal(driver, 4).retry_after_s >= 1.0
    assert "3 requests" in refusal(driver, 4).message
    driver.finish_all()
    (seq,) = driver.submit()
    driver.finish_all()
    assert driver.result(seq) == b"6", "answered requests make room"


def test_bytes_beyond_the_bound_are_refused(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_bytes=1000))
    driver.gateway()
    driver.worker()
    first, second, third = driver.submit(3, payload=b"x" * 450)
    assert driver.failure(third) is ErrorCode.QUEUE_FULL
    assert "1000 bytes" in refusal(driver, third).message
    assert driver.ledger.pipelines["p"].bytes == 2 * (450 + len(b"meta"))
    driver.cancel(first)
    driver.submit(1, payload=b"x" * 450)
    driver.finish_all()
    assert sorted(driver.answered()) == [second, third, 4]
    assert driver.ledger.pipelines["p"].bytes == 0


def test_a_lone_request_larger_than_the_bound_passes(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_bytes=1000))
    driver.gateway()
    driver.worker()
    (seq,) = driver.submit(1, payload=b"x" * 5000)
    driver.finish_all()
    assert driver.result(seq) == b"x" * 5000


def test_the_bytes_that_a_stage_makes_are_counted(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", max_bytes=1000))
    driver.gateway()
    driver.worker(b"wa", "a")
    driver.submit()
    driver.finish(b"wa", outcome=lambda payload: b"y" * 2000)
    assert driver.ledger.pipelines["p"].bytes == 2000 + len(b"1") + len(b"meta")
    (seq,) = driver.submit()
    assert driver.failure(seq) is ErrorCode.QUEUE_FULL
    driver.worker(b"wb", "b", by=b"s2")
    driver.tick()
    driver.finish_all()


def test_the_bound_of_the_first_queue_is_one_of_admission(broker: Make) -> None:
    driver = broker(p=pipeline("a", stages={"a": StageConfig(max_queue_items=2)}))
    driver.gateway()
    driver.worker()
    driver.submit(1)
    driver.submit(1)
    driver.submit(3)
    assert driver.failure(5) is ErrorCode.QUEUE_FULL
    assert "'a'" in refusal(driver, 5).message
    driver.finish_all()


def test_retry_after_is_about_the_time_that_the_work_takes(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_items=40))
    driver.gateway()
    driver.worker(timings=[(1, 1.0)])
    driver.submit(41, left_s=100.0)
    assert 20.0 < refusal(driver, 41).retry_after_s < 60.0
    driver.finish_all()


def test_what_cannot_meet_its_deadline_is_refused_at_arrival(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=4, timings=FIFTY_MS)
    driver.submit(40, left_s=0.7, priority=Priority.HIGH)  # ten batches of 50 ms
    (soon,) = driver.submit(1, left_s=0.3)
    (later,) = driver.submit(1, left_s=0.7)
    assert driver.failure(soon) is ErrorCode.OVERLOADED
    assert refusal(driver, soon).retry_after_s >= 1.0
    assert driver.answered() == [soon]
    driver.finish_all()
    assert driver.result(later) == b"%d" % later


def test_a_queue_is_as_long_as_the_deadlines_allow(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=4, timings=FIFTY_MS)
    seqs = driver.submit(100, left_s=0.3)
    admitted = [seq for seq in seqs if seq not in driver.answered()]
    assert admitted == seqs[:20], "five batches of 50 ms, and a margin"
    while driver.batches[b"w1"]:
        driver.finish(after_s=0.05, run_s=0.05)
    assert [driver.result(seq) for seq in admitted] == [b"%d" % seq for seq in admitted]


def test_one_that_is_due_sooner_goes_first_and_is_judged_so(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=4, timings=FIFTY_MS)
    driver.submit(40, left_s=60.0)
    (seq,) = driver.submit(1, left_s=0.2)
    while driver.batches[b"w1"]:
        driver.finish(after_s=0.05, run_s=0.05)
    assert driver.result(seq) == b"%d" % seq


def test_a_flood_of_one_client_refuses_no_other(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=4, timings=FIFTY_MS)
    flood = driver.submit(100, left_s=0.3, client=1)
    quiet = driver.submit(4, left_s=0.3, client=2)
    assert set(driver.answered()) == set(flood[20:])
    while driver.batches[b"w1"]:
        driver.finish(after_s=0.05, run_s=0.05)
    assert [driver.result(seq) for seq in quiet] == [b"%d" % seq for seq in quiet]


def test_low_priority_refuses_no_higher_one(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=4, timings=FIFTY_MS)
    driver.submit(100, left_s=0.3, priority=Priority.LOW)
    refused = len(driver.answered())
    high = driver.submit(4, left_s=0.25, priority=Priority.HIGH)
    assert len(driver.answered()) == refused == 80
    while driver.batches[b"w1"]:
        driver.finish(after_s=0.05, run_s=0.05)
    assert [driver.result(seq) for seq in high] == [b"%d" % seq for seq in high]


def test_full_bounds_make_room_for_a_quiet_client(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_items=10))
    driver.gateway()
    driver.worker()
    flood = driver.submit(12, client=1)
    assert [driver.failure(seq) for seq in flood[10:]] == [ErrorCode.QUEUE_FULL] * 2
    quiet = driver.submit(6, client=2)
    # One runs, one is sent ahead, and eight wait: those are shared.
    assert driver.answered() == [*flood[10:], *flood[9:5:-1], *quiet[4:]]
    assert {driver.failure(seq) for seq in driver.answered()} == {ErrorCode.QUEUE_FULL}
    driver.finish_all()
    assert [driver.result(seq) for seq in quiet[:4]] == [b"%d" % seq for seq in quiet[:4]]


def test_full_bounds_make_room_for_priority(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_bytes=2000))
    driver.gateway()
    driver.worker()
    low = driver.submit(4, payload=b"x" * 450, priority=Priority.LOW)
    high = driver.submit(2, payload=b"x" * 450, priority=Priority.HIGH)
    assert driver.answered() == [low[3], low[2]]
    assert {driver.failure(seq) for seq in driver.answered()} == {ErrorCode.QUEUE_FULL}
    driver.finish_all()
    assert all(driver.result(seq) == b"x" * 450 for seq in high)


def test_the_slowest_stage_sets_the_pace(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=32, timings=[(1, 0.001), (32, 0.001)])
    driver.worker(b"wb", "b", by=b"s2", max_batch_size=1, timings=[(1, 0.1)] * 3)
    driver.submit(10, left_s=60.0, priority=Priority.HIGH)
    (no,) = driver.submit(1, left_s=0.9)
    (yes,) = driver.submit(1, left_s=1.5)
    assert driver.failure(no) is ErrorCode.OVERLOADED
    driver.finish_all()
    assert driver.result(yes) == b"12"


def test_an_idle_pipeline_always_admits(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(timings=[(1, 30.0)])  # one slow batch must never lock the door
    (seq,) = driver.submit(1, left_s=0.5)
    assert driver.payloads() == [[seq]], "and runs it, so that the figure is corrected"
    driver.finish(run_s=0.01)
    assert driver.result(seq) == b"1"


def test_a_wrong_figure_is_corrected_by_what_an_idle_pipeline_admits(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(timings=[(1, 30.0)])
    admitted: list[int] = []
    for _ in range(200):
        seqs = driver.submit(2, left_s=0.5)
        admitted += [seq for seq in seqs if seq not in driver.answered()]
        while driver.batches[b"w1"]:
            driver.finish(after_s=0.01, run_s=0.01)
        if len(admitted) > 1 and admitted[-1] == admitted[-2] + 1:
            return
    raise AssertionError("the door stays locked")


def test_without_an_estimate_only_bounds_refuse(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.submit(2000, left_s=0.05)
    assert driver.answered() == []
    driver.cancel(*range(1, 2001))


def test_what_was_admitted_once_passes_bounds_and_prediction(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_items=2))
    driver.gateway()
    driver.worker(timings=[(1, 1.0)])
    driver.submit(2, left_s=60.0)
    (again,) = driver.submit(1, left_s=0.5, again=True)
    (fresh,) = driver.submit(1, left_s=60.0)
    assert driver.failure(fresh) is ErrorCode.QUEUE_FULL
    assert again not in driver.answered()
    driver.cancel(1, 2, again)


def test_unknown_pipeline_and_version(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(version="3")
    (nowhere,) = driver.submit(pipeline="q")
    (never,) = driver.submit(version="4")
    (default,) = driver.submit(version="1")
    (right,) = driver.submit(version="3")
    assert driver.failure(nowhere) is ErrorCode.UNKNOWN_PIPELINE
    assert driver.failure(never) is ErrorCode.UNKNOWN_VERSION
    assert driver.failure(default) is ErrorCode.UNKNOWN_VERSION
    driver.finish_all()
    assert driver.the_answer(right).version == "3"


def test_a_young_broker_waits_for_versions_that_were_admitted_before(broker: Make) -> None:
    driver = broker(p=pipeline("a", absent_s=5.0))
    driver.gateway()
    driver.worker(b"w1", version="3")
    (early,) = driver.submit(version="2", again=True)
    assert early not in driver.answered()
    assert driver.scheduler.snapshot(driver.now).pipelines["p"].items == 0
    driver.owed.discard((b"g1", early))  # its gateway is told that it is unknown, and submits again
    driver.run(5.1)
    (late,) = driver.submit(version="2", again=True)
    assert driver.failure(late) is ErrorCode.UNKNOWN_VERSION


def test_where_no_worker_names_a_version_there_is_one(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    (one,) = driver.submit(version="1")
    (two,) = driver.submit(version="2")
    assert driver.failure(two) is ErrorCode.UNKNOWN_VERSION
    driver.finish_all()
    assert driver.the_answer(one).version == "1"


def test_the_same_request_twice_is_one(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.gateway(b"g2")
    driver.worker()
    item = SubmitItem(1, "p", b"1", b"meta", 10.0)
    for _ in range(3):
        driver.submit_items([item, item])
    driver.submit_items([item], gateway=b"g2")
    assert driver.ledger.pipelines["p"].items == 2, "(sender, seq) names a request"
    driver.finish_all()
    assert driver.result(1) == driver.result(1, b"g2") == b"1"
    assert driver.ledger.counters["submitted_twice"] == 5


@pytest.mark.parametrize("left_s", [nan, inf, -inf, 1e300])
def test_deadlines_that_are_none_are_refused(broker: Make, left_s: float) -> None:
    driver = broker()
    driver.gateway()
    (seq,) = driver.submit(left_s=left_s)
    assert driver.failure(seq) is ErrorCode.BAD_REQUEST


@pytest.mark.parametrize("priority", [-1, 3, 1 << 40])
def test_priorities_that_are_none_are_refused(broker: Make, priority: int) -> None:
    driver = broker()
    driver.gateway()
    (seq,) = driver.submit(priority=priority)
    assert driver.failure(seq) is ErrorCode.BAD_REQUEST


def test_one_bad_entry_harms_none_beside_it(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=8)
    good = SubmitItem(1, "p", b"1", b"meta", 10.0)
    bad = SubmitItem(2, "?", b"2", b"meta", 10.0)
    driver.owed |= {(b"g1", 1), (b"g1", 2)}
    driver.receive(b"g1", Submit(EPOCH, [bad, good]))
    driver.tick()
    driver.finish_all()
    assert driver.failure(2) is ErrorCode.UNKNOWN_PIPELINE
    assert driver.result(1) == b"1"


def test_refusals_are_counted_by_reason(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_items=1))
    driver.gateway()
    driver.submit(3)
    driver.submit(pipeline="q")
    assert driver.ledger.counters["refused_queue_full"] == 2
    assert driver.ledger.counters["refused_unknown_pipeline"] == 1
