"""The workers of each stage: how many there are, what became of others, what they take."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.core.measurements import Measurements, StageMeasurements
from broker.core.recovery import Loss
from broker.metrics.stages import LABELS, stages_of

_Figure = Callable[[StageMeasurements], float]

_COUNTERS: dict[str, tuple[str, _Figure]] = {
    "worker_joins": ("Workers that became known.", lambda stage: stage.joined),
    "worker_leaves": ("Workers that left in order.", lambda stage: stage.quit),
    "worker_cpu_seconds": (
        "Processor time of its workers, those that are gone included.",
        lambda stage: stage.cpu_s,
    ),
    "worker_arena_overflows": (
        "Results that went through the socket because shared memory was full.",
        lambda stage: stage.overflows,
    ),
}
_GAUGES: dict[str, tuple[str, _Figure]] = {
    "busy_workers": ("Workers that hold something.", lambda stage: stage.busy_workers),
    "worker_resident_memory_bytes": (
        "Memory of its living workers together.",
        lambda stage: stage.rss_bytes,
    ),
    "worker_arena_used_bytes": (
        "Shared memory of its workers' own that is held.",
        lambda stage: stage.arena_used_bytes,
    ),
    "worker_arena_limit_bytes": (
        "How large that may become.",
        lambda stage: stage.arena_limit_bytes,
    ),
}


def families(measured: Measurements) -> Iterator[Metric]:
    """See the module."""
    stages = list(stages_of(measured))
    for name, (text, figure) in _COUNTERS.items():
        counter = CounterMetricFamily(f"millstream_{name}", text, labels=LABELS)
        for where, _, stage in stages:
            counter.add_metric(where, figure(stage))
        yield counter
    for name, (text, figure) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"millstream_{name}", text, labels=LABELS)
        for where, _, stage in stages:
            gauge.add_metric(where, figure(stage))
        yield gauge
    ready = GaugeMetricFamily(
        "millstream_ready_workers", "Workers that may be sent work.", labels=LABELS
    )
    states = GaugeMetricFamily("millstream_workers", "Workers by state.", labels=[*LABELS, "state"])
    losses = CounterMetricFamily(
        "millstream_worker_losses", "Workers that were lost.", labels=[*LABELS, "reason"]
    )
    for where, shown, stage in stages:
        ready.add_metric(where, shown.ready_workers)
        for state, count in stage.workers.items():
            states.add_metric([*where, state], count)
        for how in Loss:  # also those of which there were none: rates want a 0
            reason = how.name.lower()
            losses.add_metric([*where, reason], stage.losses.get(reason, 0))
    yield from (ready, states, losses)
