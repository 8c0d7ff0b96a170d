"""What status, metrics and gateways are shown."""

from collections.abc import Callable

import msgspec
import pytest

from broker.core.config import StageConfig
from broker.wire.messages import Catalog
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
