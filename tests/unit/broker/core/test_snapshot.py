"""What status, metrics and gateways are shown."""

from collections.abc import Callable

import msgspec
import pytest

from broker.core.config import StageConfig
from broker.core.snapshot import Extent
from broker.wire.errors import ErrorCode
from broker.wire.messages import Catalog, Failure
from tests.unit.broker.core.driver import Driver, pipeline

Make = Callable[..., Driver]


def test_a_busy_deployment(broker: Make) -> None:
    waits = StageConfig(max_wait_ms=5.0)
    chain = pipeline("a", "b", max_items=100, headers=("x-user",), stages={"b": waits})
    driver = broker(p=chain)
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=4, version="2", timings=[(1, 0.0105), (32, 0.026)])
    driver.submit(6)
    driver.run(5.0)
    shown = driver.scheduler.snapshot(driver.now)
    assert (shown.epoch, shown.draining) == (driver.epoch, False)
    assert shown.uptime_s == pytest.approx(5.0)
    p = shown.pipelines["p"]
    assert (p.chain, p.ready, p.reasons) == (["a", "b"], False, ["b: no worker"])
    assert (p.items, p.max_items, p.versions) == (6, 100, ["2"])
    assert p.bytes == 6 * (1 + len(b"meta"))
    a = p.stages["a"]
    assert (a.queued, a.running, a.ready_workers, a.workers) == (0, 6, 1, 1)
    assert (a.max_batch_size, a.done, a.failed, a.reason) == (4, 0, 0, "")
    assert a.estimate_ms is not None
    assert a.estimate_ms.a + a.estimate_ms.c == pytest.approx(10.5, rel=0.05)
    assert p.stages["b"].estimate_ms is None
    assert (a.settings, p.stages["b"].settings) == (StageConfig(), waits)
    (worker,) = shown.workers
    assert (worker.id, worker.stage, worker.state) == (b"wa".hex(), "a", "ready")
    assert (worker.version, worker.running, worker.supervisor) == ("2", 6, b"s1".hex())
    (supervisor,) = shown.supervisors
    assert (supervisor.id, supervisor.workers) == (b"s1".hex(), 1)
    (gateway,) = shown.gateways
    assert (gateway.id, gateway.items) == (b"g1".hex(), 6)
    driver.worker(b"wb", "b", by=b"s2", version="2")
    driver.tick()
    driver.finish_all()
    shown = driver.scheduler.snapshot(driver.now)
    assert shown.pipelines["p"].ready
    assert shown.pipelines["p"].stages["b"].done == 6
    assert [each.items for each in shown.workers] == [6, 6]


def test_it_can_be_written_as_json(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(ready=False)
    driver.drain()
    shown = msgspec.json.decode(msgspec.json.encode(driver.scheduler.snapshot(driver.now)))
    assert shown["draining"] is True
    assert shown["workers"][0]["state"] == "loading"


def test_the_catalog_names_what_a_gateway_needs(broker: Make) -> None:
    stages = {"a": StageConfig(max_batch_size=3)}
    driver = broker(
        p=pipeline("a", "b", stages=stages, timeout_s=2.0, max_items=5, max_bytes=99, absent_s=1.0),
        q=pipeline("a", headers=("x-user",)),
    )
    driver.gateway()
    driver.worker(b"w1", "a", max_batch_size=8, version="7")
    driver.worker(b"w2", "a", max_batch_size=2, version="8")
    driver.tick()
    catalog = driver.told(b"g1", Catalog)[-1]
    p, q = catalog.pipelines
    assert (p.name, p.timeout_s, p.max_items, p.max_bytes, p.absent_s) == ("p", 2.0, 5, 99, 1.0)
    assert p.versions == ["7", "8"]
    a, b = p.stages
    assert (a.ready_workers, a.workers, a.max_batch_size, a.versions) == (2, 2, 3, ["7", "8"])
    assert (b.ready_workers, b.workers, b.reason) == (0, 0, "no worker")
    assert (q.headers, q.stages[0].max_batch_size) == (["x-user"], 8)


def test_it_is_sent_when_something_changed_and_only_then(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.tick()
    before = len(driver.told(b"g1", Catalog))
    driver.submit(3)
    driver.finish_all()
    driver.run(3.0)
    assert len(driver.told(b"g1", Catalog)) == before


def test_how_it_went_of_late(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=4)
    driver.submit(1)
    driver.tick()
    driver.submit(3)
    driver.run(0.5)
    shown = driver.scheduler.snapshot(driver.now)
    (worker,) = shown.workers
    assert (worker.batch, worker.held, worker.credit) == (1, 1, 2)
    assert worker.batch_s == pytest.approx(0.5)
    (stage,) = shown.pipelines["p"].stages.values()
    assert stage.queued == 3
    assert stage.oldest_s == pytest.approx(0.5)

    driver.finish(after_s=0.3, run_s=0.3)
    driver.finish(after_s=0.3, run_s=0.3)
    driver.run(1.1)
    shown = driver.scheduler.snapshot(driver.now, Extent(points=10))
    p = shown.pipelines["p"]
    assert p.stages["a"].batch_sizes == {1: 1, 3: 1}
    assert p.stages["a"].oldest_s is None
    assert p.stages["a"].run_ms is not None
    assert p.stages["a"].run_ms.p50 == pytest.approx(300.0, rel=0.03)
    assert p.latency_ms is not None
    assert sum(point.answered for point in p.history) == pytest.approx(4.0, abs=0.5)
    assert p.history[-1].queued == [0]
    assert shown.workers[0].busy <= 1.0
    assert driver.scheduler.snapshot(driver.now).pipelines["p"].history == []


def test_a_worker_that_died_leaves_a_place_and_its_successor_knows_of_it(broker: Make) -> None:
    driver = broker()
    driver.worker()
    driver.run(5.0)
    driver.lose(b"w1", "signal 9 (SIGKILL)")
    driver.run(1.0, beats=False)
    shown = driver.scheduler.snapshot(driver.now)
    assert shown.workers == []
    (place,) = shown.vacant
    assert (place.id, place.vacancy, place.deaths) == (b"w1".hex(), "lost", 1)
    assert place.last_death == "signal 9 (SIGKILL)"
    assert place.last_death_ago_s == pytest.approx(1.0, abs=0.2)

    driver.worker(b"w2")
    driver.run(0.2)
    shown = driver.scheduler.snapshot(driver.now, Extent(events=10))
    (worker,) = shown.workers
    assert (worker.deaths, worker.last_death, shown.vacant) == (1, "signal 9 (SIGKILL)", [])
    told = [each.what for each in shown.events]
    assert told[-2:] == ["worker_lost", "worker_ready"]
    assert driver.scheduler.snapshot(driver.now).events == []


def test_failures_and_refusals_are_told_by_their_codes(broker: Make) -> None:
    driver = broker(p=pipeline("a", max_items=2))
    driver.gateway()
    driver.worker(max_batch_size=8)
    driver.submit(3)
    driver.tick()
    driver.finish(outcome=lambda _: Failure(ErrorCode.REJECTED, "no"))
    p = driver.scheduler.snapshot(driver.now).pipelines["p"]
    assert p.errors == {"rejected": 2}
    assert p.refusals == {"queue_full": 1}
