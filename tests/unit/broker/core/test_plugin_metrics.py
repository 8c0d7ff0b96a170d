"""What plug-ins count for themselves, as the broker takes it from workers of all kinds."""

from collections.abc import Callable

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from broker.core.plugin_metrics import MOST_METRICS, MOST_SERIES
from broker.metrics.port import families
from broker.wire.exposition import registry_of
from broker.wire.messages import PluginSeries, SeriesKind, WorkerFigures
from tests.unit.broker.core.driver import EPOCH, Driver

Make = Callable[..., Driver]


def counter(name: str = "hits", amount: float = 1.0, **labels: str) -> PluginSeries:
    kind = SeriesKind.COUNTER
    return PluginSeries(name, kind, "Help.", list(labels), list(labels.values()), amount)


def gauge(amount: float, kind: SeriesKind = SeriesKind.GAUGE_SUM) -> PluginSeries:
    return PluginSeries("size", kind, "", [], [], amount)


def histogram(counts: list[int], total: float, limits: list[float]) -> PluginSeries:
    kind = SeriesKind.HISTOGRAM
    return PluginSeries("took", kind, "", [], [], total, limits, counts)


@pytest.fixture
def driver(broker: Make) -> Driver:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1")
    return driver


def tell(driver: Driver, *series: PluginSeries, by: bytes = b"w1", **more: int) -> None:
    driver.receive(by, WorkerFigures(EPOCH, series=list(series), **more))


def served(driver: Driver) -> dict[str, Metric]:
    """What a reader gets of it, through the whole of the exposition."""
    registry = registry_of("broker", lambda: families(driver.scheduler.measure(driver.now)))
    text = generate_latest(registry).decode()
    parsed = text_string_to_metric_families(text)
    return {each.name: each for each in parsed if each.name.startswith("millstream_plugin_")}


def values(driver: Driver, name: str) -> dict[str, float]:
    """By the name of the sample and its labels."""
    found = {}
    for sample in served(driver)[f"millstream_plugin_{name}"].samples:
        labels = ",".join(value for _, value in sorted(sample.labels.items()))
        found[f"{sample.name.removeprefix('millstream_plugin_')} {labels}"] = sample.value
    return found


def test_counts_are_sums_of_what_workers_told(driver: Driver) -> None:
    driver.worker(b"w2")
    tell(driver, counter(amount=3.0, kind="x"))
    tell(driver, counter(amount=2.0, kind="x"), counter(amount=1.0, kind="y"), by=b"w2")
    driver.lose(b"w1")
    driver.worker(b"w3")
    tell(driver, counter(amount=1.0, kind="x"), by=b"w3")
    assert values(driver, "hits") == {"hits_total x,p,a,": 6.0, "hits_total y,p,a,": 1.0}


def test_histograms_add_up(driver: Driver) -> None:
    tell(driver, histogram([1, 0, 2], 30.0, [1.0, 5.0]))
    tell(driver, histogram([0, 1, 0], 2.0, [1.0, 5.0]))
    assert values(driver, "took") == {
        "took_bucket 1.0,p,a,": 1, "took_bucket 5.0,p,a,": 2, "took_bucket +Inf,p,a,": 4,
        "took_count p,a,": 4, "took_sum p,a,": 32.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "both", "one"),
    [
        (SeriesKind.GAUGE_SUM, 9.0, 2.0),
        (SeriesKind.GAUGE_MAX, 7.0, 2.0),
        (SeriesKind.GAUGE_MIN, 2.0, 2.0),
    ],
)
def test_gauges_go_with_their_worker(
    driver: Driver, kind: SeriesKind, both: float, one: float
) -> None:
    driver.worker(b"w2")
    tell(driver, gauge(7.0, kind))
    tell(driver, gauge(2.0, kind), by=b"w2")
    assert values(driver, "size") == {"size p,a,": both}
    driver.lose(b"w1")
    assert values(driver, "size") == {"size p,a,": one}


@pytest.mark.parametrize(
    "series",
    [
        counter("Hits"),
        counter("requests"),
        counter("my_requests"),
        counter("hits_total"),
        counter("a\nb"),
        counter(amount=-1.0),
        counter(amount=float("nan")),
        counter(amount=float("inf")),
        counter(stage="x"),
        counter(le="1"),
        PluginSeries("hits", SeriesKind.COUNTER, "", ["0"], ["x"], 1.0),
        counter(x="y" * 101),
        counter(a="", b="", c="", d="", e="", f=""),
        PluginSeries("hits", SeriesKind.COUNTER, "", ["a", "a"], ["x", "y"], 1.0),
        PluginSeries("hits", SeriesKind.COUNTER, "", ["a", "a"], ["x"], 1.0),
        PluginSeries("hits", SeriesKind.COUNTER, "", ["a"], [], 1.0),
        PluginSeries("hits", 99, "", [], [], 1.0),
        PluginSeries("hits", SeriesKind.COUNTER, "", [], [], 1.0, [1.0], [1, 2]),
        histogram([1, 2], 1.0, [1.0, 2.0]),
        histogram([1, 2, 3], 1.0, [2.0, 1.0]),
        histogram([1, -2, 3], 1.0, [1.0, 2.0]),
        histogram([1, 2], float("nan"), [1.0]),
        histogram([1, 2], 1.0, [float("inf")]),
        histogram([1], 1.0, []),
    ],
)
def test_what_is_no_metric_is_dropped_and_counted(driver: Driver, series: PluginSeries) -> None:
    tell(driver, series, counter("good"))
    assert set(served(driver)) == {"millstream_plugin_good", "millstream_plugin_dropped"}
    assert values(driver, "dropped") == {"dropped_total type,a": 1}


def test_a_name_stays_what_it_was_first(driver: Driver) -> None:
    tell(driver, counter("size", 4.0))
    tell(driver, gauge(1.0))
    assert values(driver, "size") == {"size_total p,a,": 4.0}
    assert values(driver, "dropped") == {"dropped_total type,a": 1}


def test_series_are_bounded(driver: Driver) -> None:
    for first in range(0, 2 * MOST_SERIES, 200):
        tell(driver, *(counter(x=str(first + number)) for number in range(200)))
    assert len(values(driver, "hits")) == MOST_SERIES
    tell(driver, *(counter(f"n{number}") for number in range(2 * MOST_METRICS)))
    assert len(served(driver)) <= MOST_METRICS + 1
    tell(driver, dropped=7)
    assert values(driver, "dropped")["dropped_total series,a"] >= MOST_SERIES + 7


def test_a_workers_shared_memory(driver: Driver) -> None:
    tell(driver, arena_used_bytes=10, arena_limit_bytes=100, overflows=2)
    tell(driver, arena_used_bytes=20, arena_limit_bytes=100, overflows=1)
    stage = driver.scheduler.measure(driver.now).pipelines["p"].stages["a"]
    assert (stage.arena_used_bytes, stage.arena_limit_bytes, stage.overflows) == (20, 100, 3)
