"""What is counted of a stage for metrics: times by phase, batches, where items and workers go."""

from collections.abc import Callable

import pytest

from broker.core.config import StageConfig
from broker.core.measurements import Measurements, StageMeasurements
from broker.metrics.port import families
from broker.wire.errors import ErrorCode
from broker.wire.measures import Counts
from broker.wire.messages import (
    Failure,
    Outcome,
    Results,
    SupervisorBeat,
    WorkerDraining,
    WorkerHealth,
    WorkerReport,
)
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline

Make = Callable[..., Driver]


def measured(driver: Driver) -> Measurements:
    return driver.scheduler.measure(driver.now)


def stage(driver: Driver, name: str = "a") -> StageMeasurements:
    return measured(driver).pipelines["p"].stages[name]


def figures(counts: Counts | None) -> tuple[int, float]:
    """How many, and their sum."""
    assert counts is not None
    return sum(counts.counts), round(counts.total, 6)


def run(driver: Driver, *, run_s: float, decode_s: float, forward_s: float, whole_s: float) -> None:
    """The next batch of w1 is done, so long after it was sent."""
    batch = driver.take()
    driver.now += whole_s
    outcomes: list[Outcome] = [item.payload for item in batch.items]
    done = Results(EPOCH, batch.lease, outcomes, run_s, decode_s=decode_s, forward_s=forward_s)
    driver.receive(b"w1", done)
    driver.tick()


def test_times_by_phase(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.submit(3)
    driver.tick(0.5)
    driver.worker(max_batch_size=4, timings=[(1, 0.1), (4, 0.1)])
    driver.tick()
    run(driver, run_s=0.2, decode_s=0.03, forward_s=0.15, whole_s=0.25)
    now = stage(driver)
    assert figures(now.wait) == (3, 1.5)
    assert figures(now.sizes) == (1, 3)
    times = {phase: figures(counts) for phase, counts in now.phases.items()}
    assert times == {
        "fill": (0, 0.0),
        "transfer": (1, 0.05),
        "decode": (1, 0.03),
        "forward": (1, 0.15),
        "encode": (1, 0.02),
    }
    count, ratio = figures(now.ratio)
    assert count == 1
    assert ratio == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0, 1e300])
def test_odd_times_of_a_worker_spoil_nothing(broker: Make, odd: float) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.submit(1)
    driver.tick()
    run(driver, run_s=0.1, decode_s=odd, forward_s=odd, whole_s=0.1)
    for counts in stage(driver).phases.values():
        assert 0.0 <= counts.total < 1.0


def test_how_long_a_batch_was_held_back(broker: Make) -> None:
    held = StageConfig(max_wait_ms=50.0)
    driver = broker(p=pipeline("a", stages={"a": held}))
    driver.gateway()
    driver.worker(max_batch_size=8, timings=[(1, 0.02), (8, 0.03)])
    driver.submit(1)
    driver.tick()
    assert driver.batches[b"w1"] == []
    driver.tick(0.03)
    driver.submit(7)
    driver.tick()
    assert figures(stage(driver).phases["fill"]) == (1, 0.03)
    driver.finish_all()
    driver.submit(8)
    driver.tick()
    assert figures(stage(driver).phases["fill"]) == (1, 0.03), "a full batch is not held"
    driver.finish_all()


def test_a_broker_may_do_without(broker: Make) -> None:
    driver = broker(measured=False)
    driver.gateway()
    driver.worker()
    driver.submit(2)
    driver.finish_all()
    now = stage(driver)
    assert (now.wait, now.phases) == (None, {})
    assert measured(driver).pipelines["p"].admitted == 2
    names = {family.name for family in families(measured(driver))}
    assert "millstream_admitted" in names


def test_where_items_go(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_items=3, attempts=2))
    driver.gateway()
    driver.worker(max_batch_size=2)
    seqs = driver.submit(3, client=1)
    driver.submit(1, client=1)
    driver.submit(1, pipeline="none")
    driver.cancel(seqs[2])
    driver.tick()
    driver.lose(b"w1")
    driver.worker(b"w2")
    driver.tick()
    driver.finish_all()
    now = measured(driver)
    p, a = now.pipelines["p"], now.pipelines["p"].stages["a"]
    assert p.admitted == 3
    assert p.cancelled == 1
    assert p.refused == {ErrorCode.QUEUE_FULL: 1}
    assert now.refused == {ErrorCode.UNKNOWN_PIPELINE: 1}
    assert a.left == {"cancelled": 1}
    assert a.dispatched >= 4
    assert sum(a.returned.values()) >= 2
    assert now.snapshot.pipelines["p"].tallies["1"].answered == 2


def test_answers_by_error_code(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.submit(1)
    driver.tick()
    driver.finish(outcome=lambda _: Failure(ErrorCode.REJECTED, "no", 422))
    driver.submit(1, left_s=0.5)
    driver.tick(1.0)
    driver.finish_all()
    tally = measured(driver).snapshot.pipelines["p"].tallies["1"]
    assert tally.errors == {ErrorCode.REJECTED: 1, ErrorCode.DEADLINE_EXCEEDED: 1}
    assert stage(driver).left == {"expired": 1}


def test_the_oldest_that_waits(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.supervisor(b"s1", "a")
    assert stage(driver).oldest_s == 0.0
    driver.submit(1)
    driver.tick(2.0)
    driver.submit(1)
    driver.tick(1.0)
    assert stage(driver).oldest_s == pytest.approx(3.0)
    driver.worker()
    driver.tick()
    driver.finish_all()
    assert stage(driver).oldest_s == 0.0


def test_workers_come_and_go(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1")
    driver.worker(b"w2", concurrency=2)
    driver.worker(b"w3", ready=False)
    now = stage(driver)
    assert (now.joined, now.quit, now.losses) == (3, 0, {})
    assert now.workers == {"loading": 1, "ready": 2, "draining": 0}
    assert (now.credits, now.credits_free) == (5, 5)
    driver.submit(1)
    driver.tick()
    assert stage(driver).credits_free == 4
    assert stage(driver).busy_workers == 1
    driver.finish_all()
    driver.receive(b"w2", WorkerDraining(EPOCH))
    driver.lose(b"w1")
    gone = WorkerReport(b"w3", WorkerHealth.GONE, out_of_memory=True)
    driver.receive(b"s1", SupervisorBeat(EPOCH, [gone]))
    now = stage(driver)
    assert now.losses == {"died": 1, "out_of_memory": 1}
    assert now.workers["draining"] == 1


def test_what_workers_take_of_their_host(broker: Make) -> None:
    driver = broker()
    driver.gateway()

    def say(worker: bytes, cpu_s: float, rss_bytes: int) -> None:
        report = WorkerReport(worker, WorkerHealth.ALIVE, cpu_s=cpu_s, rss_bytes=rss_bytes)
        driver.receive(b"s1", SupervisorBeat(EPOCH, [report]))

    driver.worker(b"w1")
    say(b"w1", 5.0, 100)
    say(b"w1", 7.0, 300)
    assert (stage(driver).cpu_s, stage(driver).rss_bytes) == (2.0, 300)
    driver.lose(b"w1")
    driver.worker(b"w2")
    say(b"w2", float("nan"), 50)
    say(b"w2", 1.0, 50)
    say(b"w2", 1.5, 50)
    for odd in (float("nan"), float("inf"), -1.0):
        say(b"w2", odd, -5)
    assert (stage(driver).cpu_s, stage(driver).rss_bytes) == (2.5, 0)
