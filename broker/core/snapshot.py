"""Read-only pictures of the ledger: what `status`, metrics and gateways are shown."""

from msgspec import Struct

from broker.core import observations
from broker.core.agreement import Agreement
from broker.core.comparison import VersionFigures, figures_of
from broker.core.config import StageConfig
from broker.core.document import TrafficDocument, describe, version_documents
from broker.core.figures import Figures
from broker.core.ledger import Ledger
from broker.core.observations import ObservedFigures
from broker.core.peers import Gateway, Supervisor, Worker
from broker.core.shadow import hindrance
from broker.core.stage import Pipeline, Stage
from broker.core.states import BrokerState
from broker.core.tally import Tally
from broker.core.traffic import age_key
from broker.wire.messages import Catalog, PipelineInfo, StageInfo, VersionInfo


class Estimate(Struct, frozen=True):
    """t(b) = a + c·b in milliseconds."""

    a: float
    c: float


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
    traffic: TrafficDocument | None = None
    """Where its requests go; None while its workers name no version."""
    shadow: ShadowSnapshot | None = None
    """Of the version that gets copies; None while there is none."""
    agreements: list[AgreementSnapshot] = []


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


def snapshot(ledger: Ledger, now: float) -> Snapshot:
    """All that `millstream status` shows."""
    peers = ledger.peers.values()
    workers = [peer for peer in peers if isinstance(peer, Worker)]
    return Snapshot(
        epoch=ledger.epoch,
        uptime_s=round(now - ledger.began, 3),
        draining=ledger.state is not BrokerState.RUNNING,
        pipelines={name: _pipeline(ledger, each, now) for name, each in ledger.pipelines.items()},
        workers=[_worker(worker) for worker in workers],
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
    )


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
        )
        for each in ledger.pipelines.values()
    ]
    return Catalog(ledger.epoch, pipelines, draining=ledger.state is not BrokerState.RUNNING)


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


def _pipeline(ledger: Ledger, pipeline: Pipeline, now: float) -> PipelineSnapshot:
    reasons = [f"{stage.name}: {stage.reason()}" for stage in pipeline.stages if stage.reason()]
    return PipelineSnapshot(
        chain=[stage.name for stage in pipeline.stages],
        ready=not reasons,
        reasons=reasons,
        items=pipeline.items,
        bytes=pipeline.bytes,
        max_items=pipeline.config.max_items,
        max_bytes=pipeline.config.max_bytes,
        versions=pipeline.versions(),
        stages={stage.name: _stage(stage) for stage in pipeline.stages},
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


def _stage(stage: Stage) -> StageSnapshot:
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
    )


def _worker(worker: Worker) -> WorkerSnapshot:
    hello = worker.hello
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
