"""A snapshot of the ledger. Nothing is changed by it."""

from msgspec.structs import replace

from broker.core import observations
from broker.core.agreement import Agreement
from broker.core.comparison import figures_of
from broker.core.document import describe
from broker.core.figures import Figures
from broker.core.findings import findings
from broker.core.ledger import Ledger
from broker.core.mirror import hindrance
from broker.core.peers import Gateway, Supervisor, Worker
from broker.core.posts import Place
from broker.core.recent import Spread
from broker.core.snapshot import (
    NOTHING_PAST,
    AgreementSnapshot,
    ArenaSnapshot,
    Estimate,
    Extent,
    GatewaySnapshot,
    PipelineSnapshot,
    ShadowSnapshot,
    Snapshot,
    StageSnapshot,
    SupervisorSnapshot,
    Times,
    VacantSnapshot,
    WorkerSnapshot,
)
from broker.core.stage import Pipeline, Stage
from broker.core.states import BrokerState
from broker.core.timeline import by_name
from broker.core.traffic import age_key
from broker.wire.measures import Counts


def snapshot(ledger: Ledger, now: float, extent: Extent = NOTHING_PAST) -> Snapshot:
    """All that `millstream status` and the page `/ui` show."""
    peers = ledger.peers.values()
    workers = [peer for peer in peers if isinstance(peer, Worker)]
    shown = Snapshot(
        epoch=ledger.epoch,
        uptime_s=round(now - ledger.began, 3),
        draining=ledger.state is not BrokerState.RUNNING,
        pipelines={
            name: _pipeline(ledger, each, now, extent.points)
            for name, each in ledger.pipelines.items()
        },
        workers=[_worker(ledger, worker, now) for worker in workers],
        supervisors=[_supervisor(peer, workers) for peer in peers if isinstance(peer, Supervisor)],
        gateways=[
            GatewaySnapshot(peer.id.hex(), peer.hello.host, peer.hello.pid, len(peer.items))
            for peer in peers
            if isinstance(peer, Gateway)
        ],
        counters=dict(ledger.counters),
        arenas=[
            ArenaSnapshot(f"{arena:016x}", owner.hex(), slots)
            for arena, owner, slots in ledger.slots.arenas()
        ],
        vacant=[
            _vacant(place, supervisor, now)
            for (supervisor, _, _), place in ledger.posts.places.items()
            if place.vacancy
        ],
        events=ledger.diary.latest(extent.events, now),
        at=round(now + ledger.wall_offset_s, 3),
    )
    return replace(shown, findings=findings(shown))


def _pipeline(ledger: Ledger, pipeline: Pipeline, now: float, points: int) -> PipelineSnapshot:
    recent = pipeline.recent
    reasons = [f"{stage.name}: {stage.reason()}" for stage in pipeline.stages if stage.reason()]
    lately_s, errors = pipeline.lately.since(recent.errors + pipeline.refused, now)
    return PipelineSnapshot(
        chain=[stage.name for stage in pipeline.stages],
        ready=not reasons,
        reasons=reasons,
        items=pipeline.items,
        bytes=pipeline.bytes,
        max_items=pipeline.config.max_items,
        max_bytes=pipeline.config.max_bytes,
        timeout_s=pipeline.config.timeout_s,
        versions=pipeline.versions(),
        stages={stage.name: _stage(stage, now) for stage in pipeline.stages},
        tallies={version: tally.snapshot(now) for version, tally in pipeline.tallies.items()},
        figures=[
            figures_of(version, tally)
            for version in sorted(pipeline.tallies, key=age_key)
            if isinstance(tally := pipeline.tallies[version], Figures)
        ],
        observed=observations.figures(pipeline),
        traffic=(
            describe(pipeline, now, ledger.wall_offset_s) if pipeline.split is not None else None
        ),
        shadow=_shadow(pipeline, now),
        agreements=[_agreement(*each) for each in pipeline.agreements.all()],
        latency_ms=_times(recent.latency_s),
        errors=by_name(recent.errors),
        refusals=by_name(pipeline.refused),
        history=list(recent.points)[-points:] if points > 0 else [],
        errors_lately=by_name(errors),
        lately_s=round(lately_s, 3),
    )


def _shadow(pipeline: Pipeline, now: float) -> ShadowSnapshot | None:
    version = pipeline.rollout.traffic.shadow
    if not version:
        return None
    mirror = pipeline.mirror
    if mirror is None:
        return ShadowSnapshot(version, hindrance(pipeline) or "it is not ready", 0, 0)
    paused_s = mirror.paused_until - now
    why = (
        f"paused for {paused_s:.0f} s: a worker that all share died of one" if paused_s > 0 else ""
    )
    return ShadowSnapshot(version, why, mirror.copies.items, mirror.bytes)


def _agreement(stable: str, shadow: str, figures: Agreement) -> AgreementSnapshot:
    return AgreementSnapshot(
        stable,
        shadow,
        figures.copies,
        figures.compared,
        figures.agreed,
        figures.differed,
        figures.failed,
        dict(figures.dropped),
        figures.note,
    )


def _times(spread: Spread) -> Times | None:
    quantiles = spread.quantiles()
    return None if quantiles is None else Times(*(round(1e3 * each, 3) for each in quantiles))


def _stage(stage: Stage, now: float) -> StageSnapshot:
    recent = stage.pipeline.recent.stages[stage.index]
    oldest = stage.oldest()
    known = [estimate for estimate in stage.estimates.values() if estimate.known]
    return StageSnapshot(
        queued=stage.queued,
        running=stage.leased,
        ready_workers=stage.ready_workers,
        workers=len(stage.workers),
        max_batch_size=stage.largest_batch,
        estimate_ms=Estimate(known[-1].a * 1e3, known[-1].c * 1e3) if known else None,
        done=stage.done,
        failed=stage.failed,
        reason=stage.reason(),
        settings=stage.config,
        batch_cap=min((stage.cap(worker) for worker in stage.workers.values()), default=0),
        streaming=stage.streaming,
        oldest_s=None if oldest is None else round(max(now - oldest, 0.0), 3),
        in_per_s=recent.in_per_s,
        out_per_s=recent.out_per_s,
        wait_ms=_times(recent.wait_s),
        run_ms=_times(recent.run_s),
        batch_sizes=recent.late_sizes(),
        estimates_ms={
            version: Estimate(each.a * 1e3, each.c * 1e3, each.samples, each.spread)
            for version, each in stage.estimates.items()
            if each.known
        },
        room=stage.room,
        busy_workers=stage.busy_workers,
        each_ms=_each_s(stage) * 1e3,
        lost_lately=stage.losses.lately(now),
        lost_reason=stage.losses.reason,
        short_of_memory=len(stage.caps),
        counts=_counts(stage),
    )


def _counts(stage: Stage) -> dict[str, Counts]:
    measures = stage.measures
    if measures is None or stage.pipeline.config.mosec is None:
        return {}
    shown = {"sizes": measures.sizes, "fill": measures.fill, "forward": measures.forward}
    return {name: histogram.take() for name, histogram in shown.items()}


def _each_s(stage: Stage) -> float:
    """Seconds that each further item takes this stage, when all its workers run full batches."""
    per_s = 0.0
    for worker in stage.workers.values():
        estimate = stage.estimates.get(worker.version)
        if worker.serving and estimate is not None and estimate.known:
            cap = stage.cap(worker)
            per_s += worker.concurrency * cap / max(estimate.predict(cap), 1e-9)
    return 1.0 / per_s if per_s else 0.0


def _worker(ledger: Ledger, worker: Worker, now: float) -> WorkerSnapshot:
    hello = worker.hello
    lease = next(iter(worker.leases.values()), None)
    begun = None if lease is None else lease.started
    place = ledger.posts.places.get(worker.post)
    return WorkerSnapshot(
        id=worker.id.hex(),
        stage=hello.stage,
        state=worker.state.name.lower(),
        version=worker.version,
        pid=hello.pid,
        host=hello.host,
        index=hello.index,
        device=hello.device,
        plugin=hello.plugin,
        running=sum(lease.size for lease in worker.leases.values()),
        batches=worker.batches,
        items=worker.items,
        supervisor=worker.supervisor.hex(),
        batch_cap=min((stage.cap(worker) for stage in worker.stages), default=0),
        credit=worker.credit,
        held=len(worker.leases),
        batch=0 if lease is None else lease.size,
        batch_s=0.0 if begun is None else round(now - begun, 3),
        busy=round(worker.busy, 3),
        streams=len(worker.streams),
        age_s=round(now - worker.loading_since, 3),
        rss_bytes=worker.rss_bytes,
        deaths=place.deaths if place is not None else 0,
        last_death=place.reason if place is not None else "",
        last_death_ago_s=_last_death_ago_s(place, now) if place is not None else None,
        pace=round(worker.pace, 3),
        pipeline=hello.pipeline,
    )


def _last_death_ago_s(place: Place, now: float) -> float | None:
    return round(now - place.died_at, 3) if place.deaths else None


def _vacant(place: Place, supervisor: bytes, now: float) -> VacantSnapshot:
    hello = place.hello
    return VacantSnapshot(
        id=place.worker.hex(),
        vacancy=place.vacancy.value,
        stage=hello.stage,
        version=hello.version,
        host=hello.host,
        pid=hello.pid,
        index=hello.index,
        supervisor=supervisor.hex(),
        since_s=round(now - place.changed_at, 3),
        deaths=place.deaths,
        last_death=place.reason,
        last_death_ago_s=_last_death_ago_s(place, now),
        pipeline=hello.pipeline,
    )


def _supervisor(supervisor: Supervisor, workers: list[Worker]) -> SupervisorSnapshot:
    hello = supervisor.hello
    return SupervisorSnapshot(
        id=supervisor.id.hex(),
        stage=hello.stage,
        script=hello.script,
        host=hello.host,
        pid=hello.pid,
        workers=sum(worker.supervisor == supervisor.id for worker in workers),
    )
