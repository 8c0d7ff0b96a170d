"""Who joins and who is lost: HELLOs, beats, silence, and which stage that leaves without hands."""

from math import inf

from broker.core.admission import not_ready
from broker.core.keeping import keep_only
from broker.core.ledger import Ledger, Peer
from broker.core.pairing import lose_comparer
from broker.core.peers import Comparer, Gateway, Supervisor, Worker
from broker.core.recovery import Loss, lose_worker
from broker.core.results import LONGEST_RUN_S
from broker.core.stage import Stage
from broker.core.states import ItemState, WorkerState, WorkerTrigger
from broker.core.traces import forget_gateway
from broker.wire.messages import (
    BEAT_S,
    IDLE_BEAT_S,
    PROTOCOL_VERSION,
    SILENCE_S,
    ComparerHello,
    GatewayHello,
    Kill,
    Refused,
    SupervisorHello,
    VersionReport,
    WorkerHealth,
    WorkerHello,
    WorkerReport,
)

MOST_CPU_S = 1e12
"""Whoever is said to have used more is lied about."""

ANSWER_S = 1.0
"""A worker that can hear has answered within this time."""

LOST_REASONS: dict[int, str] = {WorkerHealth.STOPPED: "stopped", WorkerHealth.GONE: "gone"}


def gateway_hello(ledger: Ledger, id: bytes, hello: GatewayHello, now: float) -> None:
    """A gateway joins, or says again who it is: its items stay."""
    if not _speaks(ledger, id, hello.protocol):
        return
    gateway = ledger.peers.get(id)
    if not isinstance(gateway, Gateway):
        gateway = ledger.peers[id] = ledger.gateways[id] = Gateway(id, hello, now)
        ledger.note("gateway_joined", gateway=id.hex()[:8], peer_pid=hello.pid)
    _own(ledger, gateway, hello)
    ledger.send(id, ledger.welcome)


def supervisor_hello(ledger: Ledger, id: bytes, hello: SupervisorHello, now: float) -> None:
    """A supervisor joins, or has learnt what its workers serve."""
    if not _speaks(ledger, id, hello.protocol):
        return
    stages = None
    if hello.stage:
        stages = _stages(ledger, id, hello.pipeline, hello.stage)
        if stages is None:
            return
    known = ledger.peers.get(id)
    if isinstance(known, Supervisor):
        known.hello, known.stages, known.wanted = hello, stages, None
    else:
        ledger.peers[id] = Supervisor(id, hello, stages, now)
        ledger.note("supervisor_joined", supervisor=id.hex()[:8], peer_pid=hello.pid)
    ledger.send(id, ledger.welcome)
    ledger.catalog_changed = True
    _changed(ledger, ledger.peers[id])


def _changed(ledger: Ledger, supervisor: Peer) -> None:
    """What its pipelines know of versions is to be looked at again."""
    assert isinstance(supervisor, Supervisor)
    stages = supervisor.stages
    for pipeline in {each.pipeline for each in stages} if stages else ledger.pipelines.values():
        ledger.stale[pipeline] = None


def worker_hello(ledger: Ledger, id: bytes, hello: WorkerHello, now: float) -> None:
    """A worker joins, becomes ready, or says again who it is."""
    if not _speaks(ledger, id, hello.protocol):
        return
    stages = _stages(ledger, id, hello.pipeline, hello.stage)
    if stages is None:
        return
    worker = ledger.peers.get(id)
    if isinstance(worker, Worker):
        worker.spoke = now
    else:
        worker = ledger.peers[id] = Worker(id, hello, stages, now)
        for stage in stages:
            stage.workers[id] = worker
            stage.flow.joined += 1
    stages = worker.stages  # whatever it says later
    was = worker.state
    if hello.ready or was is WorkerState.LOADING:
        worker.learn(hello)
        worker.advance(WorkerTrigger.WARM if hello.ready else WorkerTrigger.LOAD)
    for stage in stages:
        if hello.ready:
            stage.repeatable = hello.repeatable
            stage.trouble = ""
        if hello.version:
            stage.versioned = True
        for size, seconds in hello.timings:
            if size > 0 and 0.0 < seconds < LONGEST_RUN_S:
                stage.estimate(hello.version).seed(size, seconds)
    if worker.state is not was or was is WorkerState.LOADING:
        ledger.note(
            "worker_ready" if hello.ready else "worker_loading",
            worker=id.hex()[:8],
            stage=hello.stage,
            peer_pid=hello.pid,
        )
    ledger.posts.joined(worker, now)
    _own(ledger, worker, hello)
    keep_only(ledger, worker, hello.kept)
    ledger.slots.out_of_limbo(worker.arena)  # it has just said what it looks at
    ledger.remeasure(worker)
    ledger.send(id, ledger.welcome)


def comparer_hello(ledger: Ledger, id: bytes, hello: ComparerHello, now: float) -> None:
    """The process that compares answers joins, or says that it is there still. There is one: a
    second takes the place of the first.
    """
    if not _speaks(ledger, id, hello.protocol):
        return
    if id not in ledger.peers:
        before = ledger.comparer
        ledger.peers[id] = ledger.comparer = Comparer(id, now)
        if before is not None:
            lose_comparer(ledger, before, "another took its place")
        ledger.note("comparer_joined", peer_pid=hello.pid)
    ledger.send(id, ledger.welcome)


def _own(ledger: Ledger, peer: Gateway | Worker, hello: GatewayHello | WorkerHello) -> None:
    """A peer has an arena of its own, or another than before."""
    if peer.arena and peer.arena != hello.arena:
        ledger.slots.leave(peer.arena)
    peer.arena = hello.arena
    if hello.arena:
        ledger.slots.join(hello.arena, peer.id, hello.generation)


def _speaks(ledger: Ledger, id: bytes, protocol: int) -> bool:
    if protocol == PROTOCOL_VERSION:
        return True
    ledger.counters["protocol_versions_refused"] += 1
    text = f"this broker speaks protocol {PROTOCOL_VERSION}, not {protocol}"
    ledger.send(id, Refused(ledger.epoch, text))
    return False


def _stages(ledger: Ledger, id: bytes, pipeline: str, stage: str) -> list[Stage] | None:
    """The stages that a peer serves; None when there are none, and it was told so."""
    if pipeline and pipeline not in ledger.pipelines:
        text = f"there is no pipeline {pipeline!r}; there is {', '.join(ledger.pipelines)}"
        ledger.send(id, Refused(ledger.epoch, text))
        return None
    served = [ledger.pipelines[pipeline]] if pipeline else list(ledger.pipelines.values())
    stages = [found for each in served for found in each.stages if found.name == stage]
    if stages:
        return stages
    names = sorted({found.name for each in served for found in each.stages})
    text = f"no pipeline has a stage {stage!r}; the stages are {', '.join(names)}"
    ledger.send(id, Refused(ledger.epoch, text))
    return None


def supervisor_beat(
    ledger: Ledger,
    supervisor: Supervisor,
    reports: list[WorkerReport],
    versions: list[VersionReport],
    now: float,
) -> None:
    """Take over what a supervisor says of its workers, and of its versions."""
    if versions != supervisor.versions:
        supervisor.versions = versions
        _changed(ledger, supervisor)
    for report in reports:
        if report.failure:
            _note_trouble(ledger, supervisor, report.failure)
        worker = ledger.peers.get(report.worker)
        if not isinstance(worker, Worker) or worker.supervisor != supervisor.id:
            continue
        if report.health == WorkerHealth.ALIVE:
            worker.heard = now
            _note_use(worker, report)
            if report.leaving and not worker.leaving:
                ledger.note(
                    "worker_recycled",
                    worker=worker.id.hex()[:8],
                    stage=worker.hello.stage,
                    pid=worker.hello.pid,
                    reason=report.leaving,
                )
            worker.leaving = report.leaving
        else:
            what = LOST_REASONS.get(report.health, "lost")
            reason = f"{what} ({report.detail})" if report.detail else what
            lose_worker(ledger, worker, reason, now, how=_loss(report), begun=report.begun)
            if report.failure:
                for stage in worker.stages:
                    stage.losses.reason = report.failure


def _note_use(worker: Worker, report: WorkerReport) -> None:
    """What it takes of its host. What it took before it was known here is not counted: it may be
    older than this broker.
    """
    used_s = 0.0 if worker.cpu_s is None else report.cpu_s - worker.cpu_s
    if 0.0 <= used_s < LONGEST_RUN_S and report.cpu_s < MOST_CPU_S:
        for stage in worker.stages:
            stage.flow.cpu_s += used_s
        worker.cpu_s = report.cpu_s
    worker.rss_bytes = max(report.rss_bytes, 0)


def _note_trouble(ledger: Ledger, supervisor: Supervisor, failure: str) -> None:
    """A worker could not be set up: where its stage has no other, that is why."""
    for stage in supervisor.stages or ():
        if not stage.ready_workers and stage.trouble != failure:
            stage.trouble = failure
            ledger.catalog_changed = True
            ledger.stale[stage.pipeline] = None


def strangers(
    ledger: Ledger, supervisor: Supervisor, reports: list[WorkerReport], now: float
) -> list[bytes]:
    """The living workers of a supervisor that are not known here, and should be asked who they are.

    In a call of `forward` a worker hears nothing. One that says nothing for longer than a call may
    take hangs: it began under an earlier broker, or while its supervisor was thought to be dead, so
    that no lease tells, and is killed for that.
    """
    living = {each.worker: each.warm for each in reports if each.health == WorkerHealth.ALIVE}
    since = {id: supervisor.deaf.get(id, now) for id in living if id not in ledger.peers}
    supervisor.deaf = since
    for id, began in since.items():
        most_s = _longest_silence_s(supervisor, is_warm=living[id])
        if now - began > most_s:
            ledger.counters["workers_deaf"] += 1
            reason = f"it has not answered the broker for {most_s:g} s"
            ledger.send(supervisor.id, Kill(ledger.epoch, id, reason))
            since[id] = now
    return list(since)


def _longest_silence_s(supervisor: Supervisor, *, is_warm: bool) -> float:
    stages = [stage.config for stage in supervisor.stages or ()]
    calls = [each.forward_timeout_s if is_warm else each.setup_timeout_s for each in stages]
    return max(calls, default=inf) + ANSWER_S


def heard_stranger(ledger: Ledger, id: bytes, now: float) -> None:
    """One that is not known said something: it does not hang."""
    for peer in ledger.peers.values():
        if isinstance(peer, Supervisor) and id in peer.deaf:
            peer.deaf[id] = now


def _loss(report: WorkerReport) -> Loss:
    if report.out_of_memory:
        return Loss.OUT_OF_MEMORY
    return Loss.DIED if report.health == WorkerHealth.GONE else Loss.AWAY


def lose_peer(ledger: Ledger, id: bytes, reason: str, now: float, *, how: Loss = Loss.AWAY) -> None:
    """A peer is lost: so is what depends on it. `how` tells of a worker whether it died."""
    peer = ledger.peers.get(id)
    if isinstance(peer, Worker):
        lose_worker(ledger, peer, reason, now, how=how)
    elif isinstance(peer, Gateway):
        lose_gateway(ledger, peer, reason)
    elif isinstance(peer, Supervisor):
        lose_supervisor(ledger, peer, reason, now)
    elif isinstance(peer, Comparer):
        lose_comparer(ledger, peer, reason)


def lose_gateway(ledger: Ledger, gateway: Gateway, reason: str) -> None:
    """Nobody waits any longer for what it submitted."""
    if ledger.traced:
        forget_gateway(ledger, gateway)
    for item in list(gateway.items.values()):
        ledger.cancel(item)
    ledger.slots.leave(gateway.arena)
    ledger.answering.pop(gateway.id, None)
    del ledger.peers[gateway.id]
    del ledger.gateways[gateway.id]
    ledger.note("gateway_left", gateway=gateway.id.hex()[:8], reason=reason)


def lose_supervisor(ledger: Ledger, supervisor: Supervisor, reason: str, now: float) -> None:
    """Its workers are lost with it: they end when it does."""
    for worker in [peer for peer in ledger.peers.values() if isinstance(peer, Worker)]:
        if worker.supervisor == supervisor.id:
            why = f"its supervisor is lost: {reason}"
            lose_worker(ledger, worker, why, now, how=Loss.AWAY)
    supervisor_left(ledger, supervisor, reason)


def supervisor_left(ledger: Ledger, supervisor: Supervisor, reason: str) -> None:
    """It ended; its workers, if any are left, speak for themselves."""
    del ledger.peers[supervisor.id]
    ledger.note("supervisor_left", supervisor=supervisor.id.hex()[:8], reason=reason)
    ledger.catalog_changed = True
    _changed(ledger, supervisor)


def lose_silent(ledger: Ledger, now: float) -> None:
    """Give up every peer that was not heard of for `SILENCE_S`."""
    for id, peer in list(ledger.peers.items()):
        if now - peer.heard > SILENCE_S and ledger.peers.get(id) is peer:
            lose_peer(ledger, id, f"silent for {SILENCE_S:g} s", now)


def forgive_silence(ledger: Ledger, gap_s: float, now: float) -> None:
    """The broker itself stood still for so long: that is nobody's silence or slowness."""
    for peer in ledger.peers.values():
        peer.heard = min(peer.heard + gap_s, now)
        if isinstance(peer, Supervisor):
            peer.deaf = {id: since + gap_s for id, since in peer.deaf.items()}
        elif isinstance(peer, Worker):
            peer.spoke = min(peer.spoke + gap_s, now)
            peer.stop_told += gap_s
            for item in peer.streams.values():
                if item.stream is not None:
                    item.stream.due += gap_s
    for lease in ledger.leases.values():
        lease.expires += gap_s
    for pipeline in ledger.pipelines.values():
        pipeline.rollout.forgive(gap_s, now)
        for stage in pipeline.stages:
            stage.attended_at = min(stage.attended_at + gap_s, now)


def note_absence(ledger: Ledger, now: float) -> None:
    """Find the stages that nobody attends, and after `absent_s` refuse what waits for them."""
    supervisors = [peer for peer in ledger.peers.values() if isinstance(peer, Supervisor)]
    loading = any(supervisor.stages is None for supervisor in supervisors)
    attended = {stage for s in supervisors if s.stages for stage in s.stages}
    for pipeline in ledger.pipelines.values():
        for stage in pipeline.stages:
            if loading or stage in attended or stage.workers:
                stage.attended_at = now
            absent = now - stage.attended_at > pipeline.config.absent_s
            if absent != stage.absent:
                stage.absent = absent
                stage.observed.clear()  # whoever comes next may be another model
                ledger.catalog_changed = True
            if absent:
                _refuse_waiting(ledger, stage)


def _refuse_waiting(ledger: Ledger, absent: Stage) -> None:
    if not any(stage.queued for stage in absent.pipeline.stages[: absent.index + 1]):
        return
    for gateway in [peer for peer in ledger.peers.values() if isinstance(peer, Gateway)]:
        for item in list(gateway.items.values()):
            if (
                item.pipeline is absent.pipeline
                and item.state is ItemState.QUEUED
                and item.stage.index <= absent.index
            ):
                ledger.turn_out(item, not_ready(absent))


assert IDLE_BEAT_S < SILENCE_S
assert BEAT_S < SILENCE_S
