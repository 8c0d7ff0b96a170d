"""Read-only pictures of the ledger: what `status`, metrics and gateways are shown."""

from msgspec import Struct
from msgspec.structs import replace

from broker.core import observations
from broker.core.agreement import Agreement
from broker.core.comparison import VersionFigures, figures_of
from broker.core.config import MosecConfig, StageConfig
from broker.core.diary import Happening
from broker.core.document import TrafficDocument, describe, version_documents
from broker.core.figures import Figures
from broker.core.findings import Finding, findings
from broker.core.ledger import Ledger
from broker.core.observations import ObservedFigures
from broker.core.peers import Gateway, Supervisor, Worker
from broker.core.posts import Place
from broker.core.recent import Point, Spread
from broker.core.shadow import hindrance
from broker.core.stage import Pipeline, Stage
from broker.core.states import BrokerState
from broker.core.tally import Tally
from broker.core.timeline import by_name
from broker.core.traffic import age_key
from broker.wire.measures import Counts
from broker.wire.messages import Catalog, MosecInfo, PipelineInfo, StageInfo, VersionInfo


class Extent(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of the past is wanted: seconds of each pipeline, and events of the last hour."""

    points: int = 0
    events: int = 20


NOTHING_PAST = Extent(points=0, events=0)


class Times(Struct, frozen=True):
    """Quantiles, in milliseconds."""

    p50: float
    p95: float
    p99: float


class Estimate(Struct, frozen=True):
    """t(b) = a + c·b in milliseconds. `samples`: how many batches it was learnt from, beside those
    of warm-ups; `spread`: their mean deviation from it, as a share.
    """

    a: float
    c: float
    samples: int = 0
    spread: float = 0.0


class StageSnapshot(Struct, frozen=True):
    queued: int
    running: int
    ready_workers: int
    workers: int
    max_batch_size: int
    estimate_ms: Estimate | None
    done: int
    failed: int
    reason: str
    settings: StageConfig  # as they are in force
    batch_cap: int = 0
    """The smallest batch that is full for one of its workers: less than `max_batch_size` where they
    differ, or where one ran out of memory."""
    streaming: int = 0
    """Items that are answered by an open stream."""
    oldest_s: float | None = None
    """How long the item has waited that came first; None where none waits."""
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    """Of the last second: requests that came to it, and that it was done with."""
    wait_ms: Times | None = None
    run_ms: Times | None = None
    """Of the last minute: how long requests waited here, and how long batches took."""
    batch_sizes: dict[int, int] = {}
    """Of the last minute: batches by their size."""
    estimates_ms: dict[str, Estimate] = {}
    """t(b) by version, "" being that of workers which name none."""
    room: int = 0
    """How many may wait here before the stages in front of it are held back."""
    busy_workers: int = 0
    """Those of the ready ones that hold a batch."""
    each_ms: float = 0.0
    """What one item more takes it, in full batches by all its workers; 0 where t(b) is unknown."""
    lost_lately: int = 0
    """Its workers that were lost in the last minute, and why the last of them was."""
    lost_reason: str = ""
    short_of_memory: int = 0
    """Workers that are sent smaller batches since they ran out of memory."""
    counts: dict[str, Counts] = {}
    """Of pipelines whose gateways show these: sizes of batches, how long they were held back to be
    filled, and how long calls of forward took; since the broker began."""


class AgreementSnapshot(Struct, frozen=True):
    """Of the answers of a shadow with those of another version: see `Agreement`."""

    stable: str
    shadow: str
    copies: int
    compared: int
    agreed: int
    differed: int
    failed: int
    dropped: dict[str, int]
    note: str


class ShadowSnapshot(Struct, frozen=True):
    """`hindrance`: why there are no copies, "" while there are."""

    version: str
    hindrance: str
    copies: int  # under way
    bytes: int


class PipelineSnapshot(Struct, frozen=True):
    chain: list[str]
    ready: bool
    reasons: list[str]
    items: int
    bytes: int
    max_items: int
    max_bytes: int
    versions: list[str]
    stages: dict[str, StageSnapshot]
    tallies: dict[str, Tally] = {}
    """By version."""
    figures: list[VersionFigures] = []
    """Of the versions that are compared, from old to new."""
    observed: list[ObservedFigures] = []
    """What its plug-ins observe."""
    timeout_s: float = 0.0
    """The deadline of a request that brings none."""
    traffic: TrafficDocument | None = None
    """Where its requests go; None while its workers name no version."""
    shadow: ShadowSnapshot | None = None
    """Of the version that gets copies; None while there is none."""
    agreements: list[AgreementSnapshot] = []
    latency_ms: Times | None = None
    """Of the last minute: what results took, in queues and batches."""
    errors: dict[str, int] = {}
    """Requests that were taken in and failed, by code, since the broker began."""
    refusals: dict[str, int] = {}
    """Requests that were not taken in, likewise."""
    history: list[Point] = []
    """Second by second, up to now."""
    errors_lately: dict[str, int] = {}
    """Requests that got an error in the last `lately_s`, by its code."""
    lately_s: float = 0.0


class WorkerSnapshot(Struct, frozen=True):
    id: str
    stage: str
    state: str
    version: str
    pid: int
    host: str
    index: int
    device: str
    plugin: str
    running: int
    batches: int
    items: int
    supervisor: str
    batch_cap: int = 0
    """Most items of one batch now: fewer than it announced where it ran out of memory."""
    credit: int = 0
    """How many batches it may hold."""
    held: int = 0
    """How many it holds."""
    batch: int = 0
    """Items of the batch that it works on; 0 where it works on none."""
    batch_s: float = 0.0
    """For how long it has."""
    busy: float = 0.0
    """Which share of the last second it was busy with batches, 0 to 1."""
    streams: int = 0
    age_s: float = 0.0
    rss_bytes: int = 0
    """Memory, as its supervisor has read it; 0: not yet."""
    deaths: int = 0
    """How many workers died before it, at its place under its supervisor."""
    last_death: str = ""
    """Why the last of these did."""
    last_death_ago_s: float | None = None
    pace: float = 1.0
    """How long its batches take lately, over what was expected of them."""
    pipeline: str = ""
    """That it serves alone; "": each that has such a stage."""


class VacantSnapshot(Struct, frozen=True):
    """A place under a supervisor at which there is no worker. `vacancy`: `lost`, where a successor
    is to come; `drained`, where none comes until one is asked for. `id` is of the last worker.
    """

    id: str
    vacancy: str
    stage: str
    version: str
    host: str
    pid: int
    index: int
    supervisor: str
    since_s: float
    deaths: int
    last_death: str
    last_death_ago_s: float | None
    pipeline: str


class SupervisorSnapshot(Struct, frozen=True):
    id: str
    stage: str
    script: str
    host: str
    pid: int
    workers: int


class GatewaySnapshot(Struct, frozen=True):
    id: str
    host: str
    pid: int
    items: int


class ArenaSnapshot(Struct, frozen=True):
    """`owner`: the connected peer whose it is; "" while none is. `slots`: how many are held."""

    id: str
    owner: str
    slots: int


class Snapshot(Struct, frozen=True):
    epoch: int
    uptime_s: float
    draining: bool
    pipelines: dict[str, PipelineSnapshot]
    workers: list[WorkerSnapshot]
    supervisors: list[SupervisorSnapshot]
    gateways: list[GatewaySnapshot]
    counters: dict[str, int]
    arenas: list[ArenaSnapshot] = []
    traffic_file: str = ""
    """Where the traffic is kept; "" nowhere. This and the next are the shell's to know."""
    traffic_trouble: str = ""
    """Why the latest changes of it are not kept; "" while they are."""
    vacant: list[VacantSnapshot] = []
    events: list[Happening] = []
    """Of the last hour, the latest last."""
    at: float = 0.0
    """When this was, in seconds since 1970."""
    findings: list[Finding] = []
    """What is wrong, in words, the worst first."""


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


def catalog(ledger: Ledger) -> Catalog:
    """All that gateways need to know of what is served."""
    pipelines = [
        PipelineInfo(
            name=each.name,
            stages=[
                StageInfo(
                    name=stage.name,
                    ready_workers=stage.ready_workers,
                    workers=len(stage.workers),
                    max_batch_size=_batch_size(stage),
                    versions=stage.versions(),
                    reason=stage.reason(),
                    signature=_signature(stage),
                )
                for stage in each.stages
            ],
            timeout_s=each.config.timeout_s,
            max_items=each.config.max_items,
            max_bytes=each.config.max_bytes,
            headers=list(each.config.headers),
            versions=each.versions(),
            absent_s=each.config.absent_s,
            sticky=each.rollout.traffic.sticky,
            labels=each.rollout.traffic.all_labels(),
            states=_states(each),
            routes=list(each.config.routes),
            mosec=_mosec(each.config.mosec),
        )
        for each in ledger.pipelines.values()
    ]
    return Catalog(ledger.epoch, pipelines, draining=ledger.state is not BrokerState.RUNNING)


def _mosec(config: MosecConfig | None) -> MosecInfo | None:
    if config is None:
        return None
    return MosecInfo(config.namespace, config.streams, config.openapi)


def _states(pipeline: Pipeline) -> list[VersionInfo]:
    if pipeline.split is None:
        return []
    return [
        VersionInfo(each.version, each.state, each.share) for each in version_documents(pipeline)
    ]


def _signature(stage: Stage) -> bytes:
    """What its latest worker declares, one that is ready before one that is not."""
    workers = sorted(stage.workers.values(), key=lambda worker: worker.serving)
    return workers[-1].hello.signature if workers else b""


def _batch_size(stage: Stage) -> int:
    return max((stage.uncapped(worker) for worker in stage.workers.values()), default=0)


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
        max_batch_size=_batch_size(stage),
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
