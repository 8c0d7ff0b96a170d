"""A supervisor's metrics port: which one it gets, and what it shows of its workers."""

import sys
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.ports import free_port
from tests.system.client import Client
from tests.unit.workers.test_gpus import driver
from workers.crew import CrewFigures
from workers.metrics import PORTS_TRIED, SupervisorMetrics


def scrape(port: int) -> dict[str, float]:
    with Client(port) as client:
        answer = client.get("/metrics")
    assert answer.status == 200
    found = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            values = ",".join(value for _, value in sorted(sample.labels.items()))
            found[f"{sample.name.removeprefix('millstream_')} {values}"] = sample.value
    return found


@pytest.fixture
def serve() -> Iterator[Callable[[int], tuple[SupervisorMetrics, int]]]:
    """Serves the metrics of one more supervisor, which is told this port."""
    made: list[SupervisorMetrics] = []

    def serve(port: int) -> tuple[SupervisorMetrics, int]:
        metrics = SupervisorMetrics()
        made.append(metrics)
        return metrics, metrics.serve("127.0.0.1", port)

    yield serve
    for metrics in made:
        metrics.close()


Serve = Callable[[int], tuple[SupervisorMetrics, int]]


def test_several_from_one_line_take_the_ports_that_follow(serve: Serve) -> None:
    port = free_port()
    assert serve(port)[1] == port
    assert port < serve(port)[1] < port + PORTS_TRIED


def test_no_port_at_all() -> None:
    with pytest.raises(OSError, match=r"assign"):
        SupervisorMetrics().serve("192.0.2.1", 9101)


def test_what_it_shows(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    metrics, port = serve(free_port())
    assert scrape(port)["supervisor_broker_up "] == 0.0
    crew = CrewFigures(
        stage="infer",
        version="2",
        starts={"first": 2, "died": 1},
        states={"loading": 0, "warm": 2, "leaving": 0},
        cpu_s=[1.5, 0.5],
        rss_bytes=[100, 200],
    )
    metrics.show([crew], is_up=True)
    shown = scrape(port)
    assert shown["supervisor_broker_up "] == 1.0
    assert shown["supervisor_workers infer,warm,2"] == 2.0
    assert shown["supervisor_worker_starts_total died,infer,2"] == 1.0
    assert shown["supervisor_worker_cpu_seconds_total 0,infer,2"] == 1.5
    assert shown["supervisor_worker_resident_memory_bytes 1,infer,2"] == 200.0
    assert not [name for name in shown if name.startswith("gpu")]


def test_gpus_are_shown_where_the_driver_has_some(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver())
    shown = scrape(serve(free_port())[1])
    assert shown["gpu_memory_used_bytes GPU-0,H200"] == 30.0
    assert shown["gpu_utilization_ratio GPU-0,H200"] == 0.4
    assert "gpu_utilization_ratio GPU-1,H200 MIG" not in shown
