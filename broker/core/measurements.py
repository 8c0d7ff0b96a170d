"""All figures of the broker at one moment, for metrics: copies, so that another thread may read.

Made when somebody asks. What `status` shows as well is in the snapshot.
"""

from msgspec import Struct

from broker.core.document import version_documents
from broker.core.ledger import Ledger
from broker.core.peers import Worker
from broker.core.plugin_metrics import Definition, SeriesKey, gauges
from broker.core.snapshot import Snapshot
from broker.core.stage import Pipeline, Stage
from broker.core.states import WorkerState
from broker.core.status import snapshot
from broker.wire.measures import Counts


class StageMeasurements(Struct, frozen=True):
    """Of one stage. Times are in seconds."""

    dispatched: int
    returned: dict[str, int]
    left: dict[str, int]
    oldest_s: float
    room: int
    credits: int
    credits_free: int
    workers: dict[str, int]
    busy_workers: int
    joined: int
    quit: int
    losses: dict[str, int]
    cpu_s: float
    rss_bytes: int
    arena_used_bytes: int
    arena_limit_bytes: int
    overflows: int
    estimates: dict[str, tuple[float, float]]
    """By version: a and c of t(b)."""
    wait: Counts | None
    sizes: Counts | None
    ratio: Counts | None
    phases: dict[str, Counts]
    plugin: dict[SeriesKey, float | Counts]
    """Of the metrics of its plug-ins."""


class PipelineMeasurements(Struct, frozen=True):
    """Of one pipeline."""

    admitted: int
    cancelled: int
    begun_anew: int
    refused: dict[int, int]
    rollbacks: dict[str, int]
    shares: dict[str, float]
    """By version, 0 to 1; empty while its workers name none."""
    ready_workers: dict[str, int]
    """Likewise."""
    stages: dict[str, StageMeasurements]


class Measurements(Struct, frozen=True):
    """Of the whole broker."""

    snapshot: Snapshot
    pipelines: dict[str, PipelineMeasurements]
    refused: dict[int, int]
    """Requests that named no pipeline."""
    lag: Counts
    plugin_definitions: dict[str, Definition]
    plugin_dropped: dict[tuple[str, str], int]


def measure(ledger: Ledger, lag: Counts, now: float) -> Measurements:
    """How things stand."""
    metrics = ledger.plugin_metrics
    return Measurements(
        snapshot=snapshot(ledger, now),
        pipelines={name: _pipeline(ledger, each, now) for name, each in ledger.pipelines.items()},
        refused=dict(ledger.refused),
        lag=lag,
        plugin_definitions=dict(metrics.definitions),
        plugin_dropped=dict(metrics.dropped),
    )


def _pipeline(ledger: Ledger, pipeline: Pipeline, now: float) -> PipelineMeasurements:
    versions = version_documents(pipeline) if pipeline.split is not None else []
    return PipelineMeasurements(
        admitted=pipeline.admitted,
        cancelled=pipeline.cancelled,
        begun_anew=pipeline.begun_anew,
        refused=dict(pipeline.refused),
        rollbacks=dict(pipeline.rollbacks),
        shares={each.version: each.share / 100.0 for each in versions},
        ready_workers={each.version: each.ready_workers for each in versions},
        stages={stage.name: _stage(ledger, stage, now) for stage in pipeline.stages},
    )


def _stage(ledger: Ledger, stage: Stage, now: float) -> StageMeasurements:
    flow, measures = stage.flow, stage.measures
    workers = list(stage.workers.values())
    ready = [worker for worker in workers if worker.serving]
    credits = sum(worker.credit for worker in ready)
    held = sum(min(len(worker.leases), worker.credit) for worker in ready)
    known = {version: each for version, each in stage.estimates.items() if each.known}
    counted = stage.plugin_series.items()
    plugin: dict[SeriesKey, float | Counts] = {
        key: Counts(each.limits, each.counts.copy(), each.amount) if each.limits else each.amount
        for key, each in counted
    }
    plugin.update(gauges(ledger.plugin_metrics, stage))
    return StageMeasurements(
        dispatched=flow.dispatched,
        returned={str(reason): count for reason, count in flow.returned.items()},
        left={str(reason): count for reason, count in flow.left.items()},
        oldest_s=_oldest_s(stage, now),
        room=stage.room,
        credits=credits,
        credits_free=credits - held,
        workers=_by_state(workers),
        busy_workers=sum(bool(worker.leases or worker.streams) for worker in workers),
        joined=flow.joined,
        quit=flow.quit,
        losses=dict(flow.losses),
        cpu_s=flow.cpu_s,
        rss_bytes=sum(worker.rss_bytes for worker in workers),
        arena_used_bytes=sum(worker.arena_used_bytes for worker in workers),
        arena_limit_bytes=sum(worker.arena_limit_bytes for worker in workers),
        overflows=flow.overflows,
        estimates={version: (each.a, each.c) for version, each in known.items()},
        wait=measures.wait.take() if measures is not None else None,
        sizes=measures.sizes.take() if measures is not None else None,
        ratio=measures.ratio.take() if measures is not None else None,
        phases={
            phase: histogram.take()
            for phase, histogram in (measures.phases() if measures is not None else {}).items()
        },
        plugin=plugin,
    )


def _oldest_s(stage: Stage, now: float) -> float:
    """How long the oldest item that waits here has waited."""
    waiting = stage.waiting() if stage.queued else ()
    return max((now - item.entered for item in waiting), default=0.0)


def _by_state(workers: list[Worker]) -> dict[str, int]:
    states = (WorkerState.LOADING, WorkerState.READY, WorkerState.DRAINING)
    return {state.name.lower(): sum(w.state is state for w in workers) for state in states}
