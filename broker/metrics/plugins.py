"""What plug-ins count for themselves, under the names that they gave."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from broker.core.measurements import Measurements
from broker.core.plugin_metrics import Definition, SeriesKey
from broker.metrics.stages import stages_of
from broker.wire.measures import Counts
from broker.wire.messages import SeriesKind

_TYPES = {SeriesKind.COUNTER: "counter", SeriesKind.HISTOGRAM: "histogram"}


def families(measured: Measurements) -> Iterator[Metric]:
    """See the module. Series of one name may have other labels, from one version to the next."""
    by_name = {
        name: _family(name, definition) for name, definition in measured.plugin_definitions.items()
    }
    for (pipeline, stage), _, figures in stages_of(measured):
        for key, value in figures.plugin.items():
            labels = {"pipeline": pipeline, "stage": stage, "version": key.version}
            labels.update(zip(key.labels, key.values, strict=True))
            _add(by_name[key.name], key, labels, value)
    yield from (family for family in by_name.values() if family.samples)
    dropped = CounterMetricFamily(
        "millstream_plugin_dropped",
        "What plug-ins counted, and was too much (series), or no such metric (type).",
        labels=["stage", "reason"],
    )
    for (stage, reason), count in measured.plugin_dropped.items():
        dropped.add_metric([stage, reason], count)
    yield dropped


def _family(name: str, definition: Definition) -> Metric:
    text = definition.help or "Of a plug-in."
    return Metric(f"millstream_plugin_{name}", text, _TYPES.get(definition.kind, "gauge"))


def _add(family: Metric, key: SeriesKey, labels: dict[str, str], value: float | Counts) -> None:
    if not isinstance(value, Counts):
        end = "_total" if family.type == "counter" else ""
        family.add_sample(family.name + end, labels, value)
        return
    total = 0
    for limit, count in zip((*map(str, value.limits), "+Inf"), value.counts, strict=True):
        total += count
        family.add_sample(f"{family.name}_bucket", {**labels, "le": limit}, total)
    family.add_sample(f"{family.name}_count", labels, total)
    family.add_sample(f"{family.name}_sum", labels, value.total)
