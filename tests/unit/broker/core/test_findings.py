"""What status says in words: each thing that may be wrong, and that nothing is."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.core.findings import MOST
from broker.core.snapshot import Snapshot
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure
from tests.unit.broker.core.driver import Driver, pipeline

Make = Callable[..., Driver]
TIMINGS = [(1, 0.1), (4, 0.1)]


def told(driver: Driver) -> list[str]:
    return [finding.text for finding in shown(driver).findings]


def shown(driver: Driver) -> Snapshot:
    return driver.scheduler.snapshot(driver.now)


def served(broker: Make, *chain: str, **keys: Any) -> Driver:
    """A pipeline `p` of these stages with a gateway; no workers yet."""
    driver = broker(p=pipeline(*chain, **keys))
    driver.gateway()
    return driver


def test_that_all_is_well_is_said_in_a_line(broker: Make) -> None:
    driver = served(broker, "a")
    driver.worker()
    assert told(driver) == ["all is well: 1 worker ready, idle"]
    driver.submit(3)
    driver.tick()
    assert told(driver) == ["all is well: 1 worker ready, 3 requests under way"]
    assert shown(driver).findings[0].level == "fine"


def test_a_stage_without_workers_and_a_broker_without_a_gateway(broker: Make) -> None:
    driver = broker()
    assert told(driver) == [
        "p: a has no ready worker: no worker",
        "no gateway is connected: nobody can send requests",
    ]
    driver.gateway()
    driver.worker(ready=False)
    assert told(driver) == ["p: a has no ready worker: its workers are loading or leaving"]


def test_the_bottleneck_is_the_slowest_stage_and_waiting_counts_what_is_held_back(
    broker: Make,
) -> None:
    driver = served(broker, "a", "b")
    driver.worker(b"wa", "a", max_batch_size=4, timings=[(1, 0.001), (4, 0.001)])
    driver.worker(b"wb", "b", max_batch_size=4, timings=TIMINGS, by=b"s2")
    driver.worker(b"wc", "b", max_batch_size=4, timings=TIMINGS, by=b"s3")
    driver.submit(200)
    driver.tick()
    while driver.batches[b"wa"]:
        driver.finish(b"wa")
    driver.now += 0.8
    stages = shown(driver).pipelines["p"].stages
    waiting = stages["a"].queued + stages["b"].queued
    assert stages["a"].queued > 100
    assert told(driver) == [
        f"p: b is the bottleneck: 2 of 2 workers busy, {waiting} waiting, oldest 0.8 s: start more"
    ]


def test_a_queue_of_a_few_batches_or_of_a_moment_is_no_bottleneck(broker: Make) -> None:
    driver = served(broker, "a")
    driver.worker(max_batch_size=4, timings=TIMINGS)
    driver.submit(12)
    driver.tick(1.0)
    assert told(driver) == ["all is well: 1 worker ready, 12 requests under way"]
    driver = served(broker, "a")
    driver.worker(max_batch_size=4, timings=TIMINGS)
    driver.submit(100)
    driver.tick()
    assert told(driver) == ["all is well: 1 worker ready, 100 requests under way"]


def test_workers_that_die_again_and_again(broker: Make) -> None:
    driver = served(broker, "a")
    for number in range(3):
        assert "again" not in "".join(told(driver))
        driver.worker(b"w%d" % number)
        driver.lose(b"w%d" % number, "it exited with 1")
    driver.worker(b"w9")
    (text,) = told(driver)
    assert text.startswith("p: a: its workers are lost again and again, 3 in the last minute")
    assert text.endswith("it exited with 1")
    driver.run(61.0)
    assert told(driver)[0].startswith("all is well")


def test_requests_that_are_turned_away_are_counted_for_a_while(broker: Make) -> None:
    driver = served(broker, "a", max_items=10)
    driver.worker(max_batch_size=4, timings=TIMINGS)
    driver.run(30.0)
    driver.submit(15)
    driver.tick(0.1)
    first, second = told(driver)
    assert first.startswith("p turned away 5 requests in the last ")
    assert first.endswith("its queue is full (429 queue_full)")
    assert second.startswith("p holds 10 of 10 requests")
    driver.finish_all()
    driver.run(20.0)
    assert told(driver)[0].startswith("all is well")


def test_requests_that_fail(broker: Make) -> None:
    driver = served(broker, "a")
    driver.worker()
    driver.submit(1)
    driver.tick()
    driver.finish(outcome=lambda _: Failure(ErrorCode.WORKER_ERROR, "it raised"))
    (text,) = told(driver)
    assert text.startswith("p failed 1 request in the last ")
    assert text.endswith("(500 worker_error)")


def test_codes_that_there_are_not_are_the_workers_fault(broker: Make) -> None:
    driver = served(broker, "a")
    driver.worker()
    driver.submit(1)
    driver.tick()
    driver.finish(outcome=lambda _: Failure(9999, "odd"))
    assert [finding.what for finding in shown(driver).findings] == ["worker_error"]


def test_memory_that_is_full(broker: Make) -> None:
    driver = served(broker, "a", max_bytes=50)
    driver.worker()
    driver.submit(9)
    driver.tick()
    assert any(text.startswith("p holds 0 of 0 MiB") for text in told(driver))


def test_one_slow_worker_among_equals(broker: Make) -> None:
    driver = served(broker, "a")
    took_s = {b"w1": 0.01, b"w2": 0.01, b"w3": 0.03}
    for name in took_s:
        driver.worker(name, by=b"s" + name, timings=[(1, 0.01)])
    for _ in range(40):
        driver.submit(3)
        for name, run_s in took_s.items():
            while driver.batches[name]:
                driver.finish(name, run_s=run_s)
    (finding,) = shown(driver).findings
    assert (finding.what, finding.stage) == ("slow_worker", "a")
    assert "times as long as its equals" in finding.text


def test_a_version_that_failed_to_load(broker: Make) -> None:
    driver = served(broker, "a")
    driver.worker(version="1")
    driver.models(v2="FileNotFoundError: model.pt")
    assert told(driver) == ["p: version 2 cannot be loaded: FileNotFoundError: model.pt"]


def test_there_are_a_few_lines_at_most(broker: Make) -> None:
    driver = broker(p=pipeline(*"abcdefgh"))
    lines = told(driver)
    assert len(lines) == MOST
    assert lines[-1] == "and 5 findings more"


@pytest.mark.parametrize("length", [10, 1000])
def test_reasons_are_cut_to_one_line(broker: Make, length: int) -> None:
    driver = served(broker, "a")
    for number in range(3):
        driver.worker(b"w%d" % number)
        driver.lose(b"w%d" % number, "first\nsecond " + "x" * length)
    driver.worker(b"w9")
    (text,) = told(driver)
    assert "\n" not in text
    assert len(text) < 400
