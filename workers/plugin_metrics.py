"""What a plug-in counts for itself: `self.metrics`. Kept here until it is told, once a second.

    self.tokens = self.metrics.counter("tokens", "Tokens read.", labels=("kind",))
    …
    self.tokens.inc(17, kind="prompt")

The broker serves it as `millstream_plugin_tokens_total`, with the labels pipeline, stage and
version before the plug-in's own. Safe for threads, bounded however often it is called: what would
be a series too many is dropped and counted.
"""

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from threading import Lock
from typing import Any, Literal, TypeAlias, TypeVar, cast

from broker.wire import log
from broker.wire.measures import TIMES_S, Histogram
from broker.wire.messages import PluginSeries, SeriesKind

Across: TypeAlias = Literal["sum", "max", "min"]

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
LABEL = re.compile(r"[a-z][a-z0-9_]{0,31}")

MOST_METRICS = 64
MOST_SERIES = 200
"""Of one worker process: of each metric as many as there are combinations of its labels."""
MOST_LABELS = 5
MOST_LIMITS = 40
LONGEST_VALUE = 100
"""Of a label, in characters: what is longer is cut."""
LONGEST_HELP = 200

_RESERVED_LABELS = frozenset({"pipeline", "stage", "version", "le", "quantile", "instance", "job"})
_RESERVED_ENDS = ("_total", "_count", "_sum", "_bucket", "_created", "_info")
_GAUGES: dict[str, SeriesKind] = {
    "sum": SeriesKind.GAUGE_SUM,
    "max": SeriesKind.GAUGE_MAX,
    "min": SeriesKind.GAUGE_MIN,
}


class Metric:
    """One metric of a plug-in: see `PluginMetrics`."""

    def __init__(
        self,
        registry: "PluginMetrics",
        name: str,
        help: str,
        *,
        kind: SeriesKind,
        labels: tuple[str, ...],
        limits: tuple[float, ...] = (),
    ) -> None:
        self.name = name
        self.help = help
        self.kind = kind
        self.labels = labels
        self.limits = limits
        self._registry = registry
        self.definition = (kind, labels, limits)

    def _cell(self, given: dict[str, object]) -> Any:
        """Where the series with these labels is counted; None where it is one too many."""
        if len(given) != len(self.labels) or any(name not in given for name in self.labels):
            wants = ", ".join(self.labels) or "no labels"
            got = ", ".join(given) or "none"
            raise ValueError(f"metric {self.name!r} wants {wants}, not {got}")
        values = tuple(str(given[name])[:LONGEST_VALUE] for name in self.labels)
        return self._registry._cell(self, values)


class Counter(Metric):
    """Only goes up."""

    def inc(self, amount: float = 1.0, **labels: object) -> None:
        """Raises ValueError for what is negative or not finite, or for other labels."""
        if not 0.0 <= amount < math.inf:
            raise ValueError(f"counter {self.name!r} goes up, not by {amount!r}")
        registry = self._registry
        with registry.lock:
            cell = self._cell(labels)
            if cell is not None and registry.is_counting:
                cell[0] += amount


class Gauge(Metric):
    """What is so at the moment."""

    def set(self, value: float, **labels: object) -> None:
        """Raises ValueError for other labels than its own."""
        with self._registry.lock:
            cell = self._cell(labels)
            if cell is not None:
                cell[0] = float(value)
                cell[1] = True


class Distribution(Metric):
    """A histogram."""

    def observe(self, value: float, **labels: object) -> None:
        """Raises ValueError for what is not finite, or for other labels than its own."""
        if not math.isfinite(value):
            raise ValueError(f"histogram {self.name!r} takes finite numbers, not {value!r}")
        registry = self._registry
        with registry.lock:
            cell = self._cell(labels)
            if cell is not None and registry.is_counting:
                cell.add(float(value))


Defined = TypeVar("Defined", bound=Metric)


class PluginMetrics:
    """All metrics of one plug-in. To define one again as it was gives the same; otherwise, and for
    names that cannot be, ValueError.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.is_counting = True
        """False while the warm-up runs, which says nothing of requests; gauges are set."""
        self._metrics: dict[str, Metric] = {}
        self._series: dict[tuple[Metric, tuple[str, ...]], Any] = {}
        self._dropped = 0
        self._is_full = False

    def counter(self, name: str, help: str = "", labels: Sequence[str] = ()) -> Counter:
        """`name` is without `_total`, in a base unit: seconds, bytes."""
        if f"_{name}".endswith("_requests"):
            raise ValueError(
                f"{name!r}: no counter but Millstream's own ends in requests_total; "
                "call it after what is counted, such as calls or lookups"
            )
        return self._define(Counter(
            self, name, help, kind=SeriesKind.COUNTER, labels=tuple(labels)
        ))  # fmt: skip

    def gauge(
        self, name: str, help: str = "", labels: Sequence[str] = (), across: Across = "sum"
    ) -> Gauge:
        """`across` says what the broker makes of those of several workers."""
        if across not in _GAUGES:
            raise ValueError(f"gauge {name!r}: across is sum, max or min, not {across!r}")
        return self._define(Gauge(self, name, help, kind=_GAUGES[across], labels=tuple(labels)))

    def histogram(
        self,
        name: str,
        help: str = "",
        labels: Sequence[str] = (),
        buckets: Sequence[float] = TIMES_S,
    ) -> Distribution:
        """`buckets` are upper limits, ascending; by default those for seconds."""
        limits = tuple(float(limit) for limit in buckets)
        ascend = all(low < high for low, high in pairwise(limits))
        if not (0 < len(limits) <= MOST_LIMITS and ascend and all(map(math.isfinite, limits))):
            raise ValueError(
                f"histogram {name!r}: buckets are 1 to {MOST_LIMITS} finite numbers that ascend"
            )
        kind = SeriesKind.HISTOGRAM
        return self._define(
            Distribution(self, name, help, kind=kind, labels=tuple(labels), limits=limits)
        )

    def _define(self, metric: Defined) -> Defined:
        name = metric.name
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise ValueError(f"a metric is named by 1 to 64 of a-z 0-9 _, a letter first: {name!r}")
        if name.endswith(_RESERVED_ENDS):
            raise ValueError(f"{name!r}: metrics do not end in {', '.join(_RESERVED_ENDS)}")
        _check_labels(name, metric.labels)
        with self.lock:
            known = self._metrics.get(name)
            if known is not None:
                if known.definition != metric.definition:
                    raise ValueError(f"metric {name!r} is defined already, and otherwise")
                return cast(Defined, known)
            if len(self._metrics) >= MOST_METRICS:
                raise ValueError(f"{name!r}: a plug-in has {MOST_METRICS} metrics at most")
            metric.help = " ".join(metric.help.split())[:LONGEST_HELP]
            self._metrics[name] = metric
            return metric

    def _cell(self, metric: Metric, values: tuple[str, ...]) -> Any:
        key = (metric, values)
        cell = self._series.get(key)
        if cell is None:
            if len(self._series) >= MOST_SERIES:
                self._drop(metric)
                return None
            histogram = metric.kind is SeriesKind.HISTOGRAM
            cell = self._series[key] = Histogram(metric.limits) if histogram else [0.0, False]
        return cell

    def _drop(self, metric: Metric) -> None:
        self._dropped += 1
        if not self._is_full:
            self._is_full = True
            log.warning(
                "a plug-in's metrics have too many series", most=MOST_SERIES, metric=metric.name
            )

    def take(self, *, anew: bool) -> tuple[list[PluginSeries], int]:
        """What was counted since this was asked last, gauges that were set, and how often something
        was dropped. `anew`: all gauges, for who knows none of them.
        """
        with self.lock:
            told = []
            for (metric, values), cell in self._series.items():
                series = _told(metric, values, cell, anew=anew)
                if series is not None:
                    told.append(series)
            dropped, self._dropped = self._dropped, 0
            return told, dropped


def _told(metric: Metric, values: tuple[str, ...], cell: Any, *, anew: bool) -> PluginSeries | None:
    series = PluginSeries(
        metric.name, metric.kind, metric.help, list(metric.labels), list(values), 0.0
    )
    if isinstance(cell, Histogram):
        if not any(cell.counts):
            return None
        series.limits = list(cell.limits)
        series.counts, cell.counts = cell.counts, [0] * len(cell.counts)
        series.amount, cell.total = cell.total, 0.0
    elif metric.kind is SeriesKind.COUNTER:
        if not cell[0]:
            return None
        series.amount, cell[0] = cell[0], 0.0
    else:
        if not (cell[1] or anew):
            return None
        series.amount, cell[1] = cell[0], False
    return series


def _check_labels(name: str, labels: tuple[str, ...]) -> None:
    if len(labels) > MOST_LABELS or len(set(labels)) < len(labels):
        raise ValueError(f"metric {name!r}: {MOST_LABELS} labels at most, each once")
    for label in labels:
        if not isinstance(label, str) or LABEL.fullmatch(label) is None:
            raise ValueError(f"metric {name!r}: a label is 1 to 32 of a-z 0-9 _, not {label!r}")
        if label in _RESERVED_LABELS:
            raise ValueError(f"metric {name!r}: the label {label!r} is Millstream's own")
