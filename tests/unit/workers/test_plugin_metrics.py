"""`self.metrics`: what a plug-in may define and count, and what of it is told."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.messages import SeriesKind
from workers.api import Worker
from workers.plugin_metrics import MOST_METRICS, MOST_SERIES, PluginMetrics


@pytest.fixture
def metrics() -> PluginMetrics:
    return PluginMetrics()


def told(metrics: PluginMetrics, *, anew: bool = False) -> dict[tuple[str, ...], float]:
    series, _ = metrics.take(anew=anew)
    return {(each.name, *each.values): each.amount for each in series}


def test_a_plug_in_has_them_from_the_beginning() -> None:
    plugin = Worker()
    assert plugin._metrics is None
    plugin.metrics.counter("hits").inc()
    assert told(plugin.metrics) == {("hits",): 1.0}


def test_a_plug_in_may_use_the_name_otherwise() -> None:
    plugin: Any = Worker()
    plugin.metrics = {"loss": 0.1}
    assert plugin.metrics == {"loss": 0.1}
    assert plugin._metrics is None


def test_counts_are_told_once(metrics: PluginMetrics) -> None:
    hits = metrics.counter("hits", "Of the cache.", labels=["kind"])
    hits.inc(kind="warm")
    hits.inc(2.5, kind="warm")
    hits.inc(kind=7)
    assert told(metrics) == {("hits", "warm"): 3.5, ("hits", "7"): 1.0}
    assert told(metrics) == {}
    hits.inc(kind="warm")
    assert told(metrics) == {("hits", "warm"): 1.0}


def test_gauges_are_told_when_they_are_set_and_to_a_new_broker(metrics: PluginMetrics) -> None:
    size = metrics.gauge("size", across="max")
    size.set(5)
    assert told(metrics) == {("size",): 5.0}
    assert told(metrics) == {}
    assert told(metrics, anew=True) == {("size",): 5.0}


def test_histograms(metrics: PluginMetrics) -> None:
    took = metrics.histogram("took_seconds", buckets=(0.1, 1))
    for value in (0.05, 0.1, 0.5, 7):
        took.observe(value)
    ((series,), _) = metrics.take(anew=False)
    assert series.kind == SeriesKind.HISTOGRAM
    assert (series.limits, series.counts) == ([0.1, 1.0], [2, 1, 1])
    assert series.amount == pytest.approx(7.65)
    assert told(metrics) == {}


def test_the_warm_up_is_not_counted(metrics: PluginMetrics) -> None:
    hits, size = metrics.counter("hits"), metrics.gauge("size")
    metrics.is_counting = False
    hits.inc()
    size.set(3)
    metrics.is_counting = True
    assert told(metrics) == {("size",): 3.0}


def test_the_same_definition_twice_is_the_same_metric(metrics: PluginMetrics) -> None:
    assert metrics.counter("hits", labels=["a"]) is metrics.counter("hits", labels=["a"])
    with pytest.raises(ValueError, match="otherwise"):
        metrics.counter("hits")
    with pytest.raises(ValueError, match="otherwise"):
        metrics.gauge("hits", labels=["a"])


@pytest.mark.parametrize(
    "define",
    [
        lambda m: m.counter("Hits"),
        lambda m: m.counter(""),
        lambda m: m.counter(7),
        lambda m: m.counter("a" * 65),
        lambda m: m.counter("hits_total"),
        lambda m: m.counter("requests"),
        lambda m: m.counter("my_requests"),
        lambda m: m.counter("hits", labels=["stage"]),
        lambda m: m.counter("hits", labels=["le"]),
        lambda m: m.counter("hits", labels=["a", "a"]),
        lambda m: m.counter("hits", labels=["a-b"]),
        lambda m: m.counter("hits", labels="abcdef"),
        lambda m: m.gauge("size", across="mean"),
        lambda m: m.histogram("took", buckets=()),
        lambda m: m.histogram("took", buckets=(2, 1)),
        lambda m: m.histogram("took", buckets=(1, 1)),
        lambda m: m.histogram("took", buckets=(1, float("inf"))),
        lambda m: m.histogram("took", buckets=range(100)),
    ],
)
def test_what_cannot_be_a_metric(
    metrics: PluginMetrics, define: Callable[[PluginMetrics], object]
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        define(metrics)


def test_what_cannot_be_counted(metrics: PluginMetrics) -> None:
    hits = metrics.counter("hits", labels=["kind"])
    took = metrics.histogram("took")
    for amount in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="goes up"):
            hits.inc(amount, kind="x")
    with pytest.raises(ValueError, match="wants kind, not none"):
        hits.inc()
    with pytest.raises(ValueError, match="wants kind, not sort"):
        hits.inc(sort="x")
    with pytest.raises(ValueError, match="finite"):
        took.observe(float("nan"))
    assert told(metrics) == {}


def test_series_are_bounded(metrics: PluginMetrics) -> None:
    hits = metrics.counter("hits", labels=["id"])
    for number in range(10 * MOST_SERIES):
        hits.inc(id=number)
    series, dropped = metrics.take(anew=False)
    assert len(series) == MOST_SERIES
    assert dropped == 9 * MOST_SERIES
    assert metrics.take(anew=False) == ([], 0)
    hits.inc(id="x" * 1000)
    for number in range(1, MOST_METRICS):
        metrics.counter(f"n{number}")
    with pytest.raises(ValueError, match="at most"):
        metrics.counter("one_more")


def test_threads_lose_nothing(metrics: PluginMetrics) -> None:
    hits = metrics.counter("hits")

    def count() -> None:
        for _ in range(5000):
            hits.inc()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    total = 0.0
    while any(thread.is_alive() for thread in threads):
        total += told(metrics).get(("hits",), 0.0)
    for thread in threads:
        thread.join()
    assert total + told(metrics).get(("hits",), 0.0) == 20_000
