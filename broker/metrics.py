"""The broker's metrics port: the latest snapshot, as Prometheus wants to read it.

The HTTP server is prometheus_client's, in a thread of its own; it reads a snapshot that the loop of
the broker leaves here, and never the live state.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from broker.core.scheduler import Scheduler
from broker.core.snapshot import Snapshot

REFRESH_S = 0.5
"""How old a figure may be."""


class MetricsPort(Collector):
    """Serves the figures of a scheduler. `refresh` is called by the loop at each turn."""

    def __init__(self, scheduler: Scheduler, *, host: str, port: int) -> None:
        """Raises OSError where the port cannot be had."""
        self._scheduler = scheduler
        self._due = 0.0
        self._latest: Snapshot | None = None
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        start_http_server(port, addr=host, registry=registry)

    def refresh(self, now: float) -> None:
        """Take a new snapshot, if the last one has become old."""
        if now >= self._due:
            self._due = now + REFRESH_S
            self._latest = self._scheduler.snapshot(now)

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks for at a scrape."""
        snapshot = self._latest
        if snapshot is None:
            return
        events = CounterMetricFamily(
            "millstream_broker_events", "What happened, by kind.", labels=["event"]
        )
        for event, count in snapshot.counters.items():
            events.add_metric([event], count)
        yield events
        yield from _arenas(snapshot)
        yield from _pipelines(snapshot)
        yield from _versions(snapshot)
        yield from _observed(snapshot)
        yield from _stages(snapshot)
        yield from _shadows(snapshot)


def _arenas(snapshot: Snapshot) -> Iterator[Metric]:
    held = sum(arena.slots for arena in snapshot.arenas)
    yield GaugeMetricFamily("millstream_arenas", "Arenas known.", len(snapshot.arenas))
    yield GaugeMetricFamily("millstream_arena_held_slots", "Slots that somebody holds.", held)


def _pipelines(snapshot: Snapshot) -> Iterator[Metric]:
    items = GaugeMetricFamily(
        "millstream_items", "Items admitted and unanswered.", labels=["pipeline"]
    )
    held = GaugeMetricFamily(
        "millstream_held_bytes", "Bytes held for a pipeline.", labels=["pipeline"]
    )
    for name, pipeline in snapshot.pipelines.items():
        items.add_metric([name], pipeline.items)
        held.add_metric([name], pipeline.bytes)
    yield items
    yield held


def _versions(snapshot: Snapshot) -> Iterator[Metric]:
    """Of versions that are compared; there are as many as the broker remembers."""
    labels = ["pipeline", "version"]
    answered = CounterMetricFamily(
        "millstream_version_answered", "Requests that a version is judged by.", labels=labels
    )
    errors = CounterMetricFamily(
        "millstream_version_errors", "Of these, errors that may be its fault.", labels=labels
    )
    rejected = CounterMetricFamily(
        "millstream_version_rejected", "Requests that it rejected.", labels=labels
    )
    latency = GaugeMetricFamily(
        "millstream_version_latency_seconds",
        "Of late, in the stages that have versions: queues and batches.",
        labels=[*labels, "quantile"],
    )
    for name, pipeline in snapshot.pipelines.items():
        for figures in pipeline.figures:
            where = [name, figures.version]
            answered.add_metric(where, figures.requests)
            errors.add_metric(where, figures.errors)
            rejected.add_metric(where, figures.rejected)
            times_ms = (figures.p50_ms, figures.p95_ms, figures.p99_ms)
            for quantile, time_ms in zip(("0.5", "0.95", "0.99"), times_ms, strict=True):
                if time_ms is not None:
                    latency.add_metric([*where, quantile], time_ms / 1e3)
    yield from (answered, errors, rejected, latency)


def _observed(snapshot: Snapshot) -> Iterator[Metric]:
    """What plug-ins observe; there are at most 1,024 names in a stage."""
    labels = ["pipeline", "stage", "version", "name"]
    count = CounterMetricFamily("millstream_observed", "Numbers observed.", labels=labels)
    ignored = CounterMetricFamily(
        "millstream_observed_ignored", "Observed, and not finite.", labels=labels
    )
    mean = GaugeMetricFamily("millstream_observed_mean", "The mean of all.", labels=labels)
    index = GaugeMetricFamily(
        "millstream_observed_stability_index",
        "Of late, against the reference: below 0.1 it is steady, from 0.25 on it is not.",
        labels=labels,
    )
    shift = GaugeMetricFamily(
        "millstream_observed_shift",
        "Of the mean, of late, in standard deviations of the reference.",
        labels=labels,
    )
    for name, pipeline in snapshot.pipelines.items():
        for each in pipeline.observed:
            where = [name, each.stage, each.version, each.name]
            count.add_metric(where, each.count)
            ignored.add_metric(where, each.ignored)
            mean.add_metric(where, each.mean)
            if each.psi is not None:
                index.add_metric(where, each.psi)
            if each.shift is not None:
                shift.add_metric(where, each.shift)
    yield from (count, ignored, mean, index, shift)


def _shadows(snapshot: Snapshot) -> Iterator[Metric]:
    """`stable` and `shadow` are versions: of a pipeline's pairs of these the latest are known."""
    labels = ["pipeline", "stable", "shadow"]
    copies = CounterMetricFamily("millstream_shadow_copies", "Copies made.", labels=labels)
    compared = CounterMetricFamily(
        "millstream_shadow_compared",
        "Pairs of answers: agreed, differed, or failed by the shadow alone.",
        labels=[*labels, "outcome"],
    )
    dropped = CounterMetricFamily(
        "millstream_shadow_dropped", "Copies not compared, and why.", labels=[*labels, "reason"]
    )
    for name, pipeline in snapshot.pipelines.items():
        for each in pipeline.agreements:
            who = [name, each.stable, each.shadow]
            copies.add_metric(who, each.copies)
            compared.add_metric([*who, "agreed"], each.agreed)
            compared.add_metric([*who, "differed"], each.differed)
            compared.add_metric([*who, "failed"], each.failed)
            for reason, count in each.dropped.items():
                dropped.add_metric([*who, reason], count)
    yield from (copies, compared, dropped)


def _stages(snapshot: Snapshot) -> Iterator[Metric]:
    labels = ["pipeline", "stage"]
    queued = GaugeMetricFamily("millstream_queued_items", "Items that wait.", labels=labels)
    running = GaugeMetricFamily("millstream_running_items", "Items at workers.", labels=labels)
    streaming = GaugeMetricFamily("millstream_open_streams", "Streams at workers.", labels=labels)
    ready = GaugeMetricFamily("millstream_ready_workers", "Ready workers.", labels=labels)
    cap = GaugeMetricFamily(
        "millstream_batch_cap", "Most items of a batch, for the worker with least.", labels=labels
    )
    done = CounterMetricFamily("millstream_items_done", "Items with a result.", labels=labels)
    failed = CounterMetricFamily("millstream_items_failed", "Items without one.", labels=labels)
    for name, pipeline in snapshot.pipelines.items():
        for stage_name, stage in pipeline.stages.items():
            where = [name, stage_name]
            queued.add_metric(where, stage.queued)
            running.add_metric(where, stage.running)
            streaming.add_metric(where, stage.streaming)
            ready.add_metric(where, stage.ready_workers)
            cap.add_metric(where, stage.batch_cap)
            done.add_metric(where, stage.done)
            failed.add_metric(where, stage.failed)
    yield from (queued, running, streaming, ready, cap, done, failed)
