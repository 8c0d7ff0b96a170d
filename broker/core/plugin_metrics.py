"""What plug-ins count for themselves, by stage and version: kept within bounds, and never trusted
to be what a metric can be.

Counters and histograms are sums of what workers told, so that a worker's end takes nothing away;
gauges are a worker's, and go with it.
"""

import re
from collections import Counter
from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.wire.messages import PluginSeries, SeriesKind, WorkerFigures

if TYPE_CHECKING:
    from broker.core.peers import Worker
    from broker.core.stage import Stage

MOST_SERIES = 1000
"""Of one stage, those of all its versions and workers together."""

MOST_METRICS = 256
"""Of all stages: what each name stands for is remembered."""

MOST_LABELS = 5
MOST_LIMITS = 40
LONGEST_VALUE = 100
LONGEST_HELP = 200

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
RESERVED = re.compile(r"(?:.*_)?requests|.*_(?:total|count|sum|bucket|created|info)")
RESERVED_LABELS = frozenset({"pipeline", "stage", "version", "le", "quantile"})

KINDS = frozenset(SeriesKind)
GAUGES = (SeriesKind.GAUGE_SUM, SeriesKind.GAUGE_MAX, SeriesKind.GAUGE_MIN)


class SeriesKey(NamedTuple):
    """What tells a series of a stage from the others."""

    name: str
    version: str
    labels: tuple[str, ...]
    values: tuple[str, ...]


class Counted:
    """A counter, or a histogram where there are limits."""

    __slots__ = ("amount", "counts", "limits")

    def __init__(self, limits: tuple[float, ...]) -> None:
        self.limits = limits
        self.counts = [0] * (len(limits) + 1) if limits else []
        self.amount = 0.0


class Definition(NamedTuple):
    """What a name stands for; by who came first."""

    kind: SeriesKind
    help: str


class PluginMetrics:
    """What all stages have in common."""

    __slots__ = ("definitions", "dropped")

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self.dropped: Counter[tuple[str, str]] = Counter()  # by stage, and why

    def admits(self, series: PluginSeries) -> bool:
        """Whether its name stands for what it is, from now on at the latest."""
        kind = SeriesKind(series.kind)
        known = self.definitions.get(series.name)
        if known is not None:
            return known.kind is kind
        if len(self.definitions) >= MOST_METRICS:
            return False
        self.definitions[series.name] = Definition(kind, series.help[:LONGEST_HELP])
        return True


Told: TypeAlias = tuple[SeriesKey, PluginSeries]


def take(metrics: PluginMetrics, worker: "Worker", figures: WorkerFigures) -> None:
    """A worker tells of itself."""
    worker.arena_used_bytes = max(figures.arena_used_bytes, 0)
    worker.arena_limit_bytes = max(figures.arena_limit_bytes, 0)
    dropped: Counter[str] = Counter(series=max(figures.dropped, 0))
    for stage in worker.stages:
        stage.flow.overflows += max(figures.overflows, 0)
        version = stage.version_of(worker)
        for series in figures.series:
            if _is_sound(series) and metrics.admits(series):
                key = SeriesKey(series.name, version, tuple(series.labels), tuple(series.values))
                dropped["series"] += not _add(stage, worker, key, series)
            else:
                dropped["type"] += 1
    for reason, count in dropped.items():
        if count:
            metrics.dropped[worker.hello.stage, reason] += count


def _add(stage: "Stage", worker: "Worker", key: SeriesKey, series: PluginSeries) -> bool:
    """False where it is one too many."""
    if series.kind in GAUGES:
        if key not in worker.gauges and len(worker.gauges) >= MOST_SERIES:
            return False
        worker.gauges[key] = series.amount
        return True
    counted = stage.plugin_series.get(key)
    if counted is None or len(counted.counts) != len(series.counts):
        if counted is None and len(stage.plugin_series) >= MOST_SERIES:
            return False
        counted = stage.plugin_series[key] = Counted(tuple(series.limits))
    counted.amount += series.amount
    counted.counts = [a + b for a, b in zip(counted.counts, series.counts, strict=True)]
    return True


def _is_sound(series: PluginSeries) -> bool:
    """Whether this can be a metric: a worker's runtime sees to that, but who knows whose it is."""
    labels = series.labels
    if (
        series.kind not in KINDS
        or not _is_name(series.name)
        or RESERVED.fullmatch(series.name) is not None
        or len(labels) > MOST_LABELS
        or not len(set(labels)) == len(labels) == len(series.values)
        or not all(_is_name(label) and label not in RESERVED_LABELS for label in labels)
        or any(len(value) > LONGEST_VALUE for value in series.values)
    ):
        return False
    if series.kind == SeriesKind.HISTOGRAM:
        return _ascend(series.limits) and _are_counts(series) and -inf < series.amount < inf
    if series.kind == SeriesKind.COUNTER:
        return not series.limits and not series.counts and 0.0 <= series.amount < inf
    return not series.limits


def _is_name(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def _ascend(limits: list[float]) -> bool:
    known = [limit for limit in limits if -inf < limit < inf]
    return 0 < len(limits) <= MOST_LIMITS and known == sorted(set(limits))


def _are_counts(series: PluginSeries) -> bool:
    counts = series.counts
    return len(counts) == len(series.limits) + 1 and min(counts) >= 0


def forget(stage: "Stage", version: str) -> None:
    """Nobody has this version any longer."""
    for key in [key for key in stage.plugin_series if key.version == version]:
        del stage.plugin_series[key]


def gauges(metrics: PluginMetrics, stage: "Stage") -> dict[SeriesKey, float]:
    """Those of the stage's workers, made into one each as their definition says."""
    by_key: dict[SeriesKey, list[float]] = {}
    for worker in stage.workers.values():
        for key, value in worker.gauges.items():
            by_key.setdefault(key, []).append(value)
    return {
        key: _across(metrics.definitions[key.name].kind, values) for key, values in by_key.items()
    }


def _across(kind: SeriesKind, values: Iterable[float]) -> float:
    if kind is SeriesKind.GAUGE_MAX:
        return max(values)
    return min(values) if kind is SeriesKind.GAUGE_MIN else sum(values)
