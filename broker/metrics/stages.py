"""What stages do: items that come and go, how long they wait, and how batches are run."""

from collections.abc import Callable, Iterator
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.core.measurements import Measurements, StageMeasurements
from broker.core.measures import Departure, Return
from broker.core.snapshot import StageSnapshot
from broker.wire.exposition import add_counts, histogram

LABELS = ["pipeline", "stage"]

_Figure = Callable[[StageSnapshot, StageMeasurements], float]

_COUNTERS: dict[str, tuple[str, _Figure]] = {
    "items_done": ("Items that left the stage with a result.", lambda shown, _: shown.done),
    "items_failed": (
        "Items that left it with an error of the plug-in, or since workers died.",
        lambda shown, _: shown.failed,
    ),
    "items_dispatched": (
        "Attempts: items handed to workers, each time.",
        lambda _, measured: measured.dispatched,
    ),
}
_GAUGES: dict[str, tuple[str, _Figure]] = {
    "queued_items": ("Items that wait.", lambda shown, _: shown.queued),
    "queue_limit_items": (
        "So many of the stage before may wait here.",
        lambda _, measured: measured.room,
    ),
    "oldest_item_age_seconds": (
        "How long the oldest of those that wait has waited.",
        lambda _, measured: measured.oldest_s,
    ),
    "running_items": ("Items at workers.", lambda shown, _: shown.running),
    "open_streams": ("Streams at workers.", lambda shown, _: shown.streaming),
    "batch_cap": (
        "Most items of a batch, for the worker with least.",
        lambda shown, _: shown.batch_cap,
    ),
    "credits": (
        "Batches that its ready workers may hold.",
        lambda _, measured: measured.credits,
    ),
    "credits_free": (
        "Of these, those that they do not hold.",
        lambda _, measured: measured.credits_free,
    ),
}


def stages_of(
    measured: Measurements,
) -> Iterator[tuple[list[str], StageSnapshot, StageMeasurements]]:
    """Each stage, with the labels that name it."""
    for name, pipeline in measured.pipelines.items():
        shown = measured.snapshot.pipelines[name].stages
        for stage, measurements in pipeline.stages.items():
            yield [name, stage], shown[stage], measurements


def families(measured: Measurements) -> Iterator[Metric]:
    """See the module."""
    stages = list(stages_of(measured))
    for name, (text, figure) in _COUNTERS.items():
        counter = CounterMetricFamily(f"millstream_{name}", text, labels=LABELS)
        for where, shown, stage in stages:
            counter.add_metric(where, figure(shown, stage))
        yield counter
    for name, (text, figure) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"millstream_{name}", text, labels=LABELS)
        for where, shown, stage in stages:
            gauge.add_metric(where, figure(shown, stage))
        yield gauge
    left = CounterMetricFamily(
        "millstream_items_left",
        "Items that left it with neither a result nor an error of its own.",
        labels=[*LABELS, "reason"],
    )
    returned = CounterMetricFamily(
        "millstream_items_requeued",
        "Items that came back from a worker.",
        labels=[*LABELS, "reason"],
    )
    for where, _, stage in stages:
        for reason in get_args(Departure):  # also those of which there were none: rates want a 0
            left.add_metric([*where, reason], stage.left.get(reason, 0))
        for reason in get_args(Return):
            returned.add_metric([*where, reason], stage.returned.get(reason, 0))
    yield from (left, returned)
    yield from _batches(stages)


def _batches(stages: list[tuple[list[str], StageSnapshot, StageMeasurements]]) -> Iterator[Metric]:
    wait = histogram(
        "millstream_queue_wait_seconds",
        "Of items, from their arrival in the stage until a worker comes to them.",
        LABELS,
    )
    sizes = histogram("millstream_batch_items", "Batch sizes.", LABELS)
    ratio = histogram(
        "millstream_batch_run_ratio", "How long batches took, over what was predicted.", LABELS
    )
    phases = histogram(
        "millstream_batch_phase_seconds", "How long each part of a batch took.", [*LABELS, "phase"]
    )
    base = GaugeMetricFamily(
        "millstream_batch_time_base_seconds",
        "What a batch takes whatever its size: a of t(b) = a + c·b.",
        labels=[*LABELS, "version"],
    )
    item = GaugeMetricFamily(
        "millstream_batch_time_item_seconds",
        "What each item of a batch adds: c of t(b) = a + c·b.",
        labels=[*LABELS, "version"],
    )
    for where, _, stage in stages:
        for family, counts in ((wait, stage.wait), (sizes, stage.sizes), (ratio, stage.ratio)):
            if counts is not None:
                add_counts(family, where, counts)
        for phase, counts in stage.phases.items():
            add_counts(phases, [*where, phase], counts)
        for version, (a, c) in stage.estimates.items():
            base.add_metric([*where, version], a)
            item.add_metric([*where, version], c)
    yield from (wait, sizes, ratio, phases, base, item)
