"""What has become of requests, by the version that answered, and what the catalog says of them."""

from collections.abc import Callable

import pytest

from broker.core.tally import Tally
from broker.wire.errors import ErrorCode
from broker.wire.messages import Catalog, Failure
from tests.unit.broker.core.driver import Driver, pipeline

Make = Callable[..., Driver]


def tallies(driver: Driver) -> dict[str, Tally]:
    return driver.scheduler.snapshot(driver.now).pipelines["p"].tallies


def test_requests_and_the_batches_of_the_last_stage(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=1, version="2")
    driver.worker(b"wb", "b", by=b"s2", max_batch_size=8, version="2")
    driver.submit(2)
    driver.finish(b"wa", run_s=0.5)
    driver.finish(b"wa", run_s=0.5)
    driver.finish(b"wb", after_s=0.25, run_s=0.25)
    driver.finish(b"wb", run_s=0.25)
    (tally,) = tallies(driver).values()
    assert list(tallies(driver)) == ["2"]
    assert (tally.answered, tally.failed, tally.batches) == (2, 0, 2)
    assert tally.answered_run_s == pytest.approx(2 * (0.5 + 0.25))
    assert tally.answered_queue_s >= 0.25
    assert sum(each.count for each in tally.by_size.values()) == 2
    assert sum(each.run_s for each in tally.by_size.values()) == pytest.approx(0.5)
    assert (tally.last, tally.last_ago_s) == (None, 0.0)
    driver.run(3.0)
    (tally,) = tallies(driver).values()
    assert tally.last_ago_s == pytest.approx(3.0)


def test_failures(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=1)
    driver.submit(1)
    failure = Failure(ErrorCode.WORKER_ERROR, "why")
    driver.finish(outcome=lambda _: failure, run_s=0.5)
    tally = tallies(driver)["1"]
    assert (tally.answered, tally.failed, tally.batches) == (0, 1, 1)
    assert tally.failed_s == pytest.approx(0.5)
    driver.submit(1, left_s=1.0)
    driver.run(2.0)
    assert tallies(driver)["1"].failed == 2
    assert tally.failed == 1  # a snapshot stays as it was


def test_the_catalog_has_what_the_latest_ready_worker_declares(broker: Make) -> None:
    driver = broker()
    driver.gateway()

    def declared() -> bytes:
        driver.tick()
        (stage,) = driver.told(b"g1", Catalog)[-1].pipelines[0].stages
        return stage.signature

    assert declared() == b""
    driver.worker(b"w1", signature=b"one")
    assert declared() == b"one"
    driver.worker(b"w2", ready=False, signature=b"two")
    assert declared() == b"one"
    driver.worker(b"w2", signature=b"two")
    assert declared() == b"two"
    driver.lose(b"w2")
    assert declared() == b"one"
