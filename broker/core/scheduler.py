"""The broker's decisions: events and the time in, actions out.

`handle` takes one event and returns what must be done at once; `tick` ends a turn: it forms
batches, sends what answers have gathered, and sees to everything that is due by the clock. A shell
calls `handle` for all that came in, then `tick`, then waits until `next_deadline` or a message.
"""

from collections.abc import Callable
from math import inf
from typing import Any

from broker.core import (
    drain,
    guard,
    membership,
    observations,
    operations,
    pairing,
    plugin_metrics,
    recovery,
    rollout,
    shadow,
    streams,
    traces,
)
from broker.core.admission import submit
from broker.core.catalog import catalog
from broker.core.config import PipelineConfig
from broker.core.dispatch import dispatch
from broker.core.events import (
    Action,
    Asked,
    DrainAsked,
    Event,
    Misbehaved,
    PeerLost,
    Received,
    Stop,
    Swept,
    Unreadable,
)
from broker.core.keeping import count_limbo, keep_only, let_go
from broker.core.ledger import Ledger, Peer
from broker.core.measurements import Measurements, measure
from broker.core.peers import Comparer, Gateway, Supervisor, Worker
from broker.core.recent import STEP_S
from broker.core.recovery import Loss
from broker.core.results import accept
from broker.core.shortage import raise_caps
from broker.core.snapshot import NOTHING_PAST, Extent, Snapshot
from broker.core.status import snapshot
from broker.core.timeline import take_a_step
from broker.core.traffic import Traffic
from broker.wire.errors import ErrorCode
from broker.wire.measures import Histogram
from broker.wire.messages import (
    BEAT_S,
    PROTOCOL_VERSION,
    Answers,
    Beat,
    Bye,
    Cancel,
    Compared,
    ComparerHello,
    Credit,
    Failure,
    GatewayBeat,
    GatewayHello,
    Gone,
    Observations,
    Renew,
    Results,
    Steps,
    Submit,
    SupervisorBeat,
    SupervisorHello,
    Unknown,
    Values,
    Welcome,
    Who,
    WorkerBeat,
    WorkerDraining,
    WorkerFigures,
    WorkerHello,
)

HOUSEKEEPING_S = 0.1
"""How often silence, hung workers and leavers are looked for."""

STALL_S = 1.0
"""A turn that comes this much late was the broker's own standstill (a stop, a suspended host)."""

MUCH = 3
"""Gateways are told what a pipeline holds beyond bodies where that is more than one part of its
bound in two to this power."""

ASK_AGAIN_S = 0.2
"""A stranger is asked who it is this often at most."""


HELLOS: dict[type, type] = {
    GatewayHello: Gateway,
    WorkerHello: Worker,
    SupervisorHello: Supervisor,
    ComparerHello: Comparer,
}


class Scheduler:
    """The core of one broker. Not safe for threads; knows no sockets and reads no clock."""

    def __init__(
        self,
        pipelines: dict[str, PipelineConfig],
        *,
        epoch: int,
        now: float,
        arenas: str = "",
        token: str = "",
        traffic: dict[str, Traffic] | None = None,
        wall_offset_s: float = 0.0,
        measured: bool = True,
    ) -> None:
        """`arenas` names the folder of shared memory, and `token` lies in it; "": there is none.
        `traffic` is what was kept of each pipeline's. `wall_offset_s`: the wall clock less `now`'s.
        `measured`: whether to count what only metrics show.
        """
        welcome = Welcome(epoch, PROTOCOL_VERSION, arenas, token)
        self.ledger = Ledger(
            pipelines, welcome=welcome, now=now, traffic=traffic, wall_offset_s=wall_offset_s
        )
        if not measured:
            for pipeline in self.ledger.pipelines.values():
                for stage in pipeline.stages:
                    stage.measures = None
        self.lag = Histogram()  # of what was due by the clock
        self.ledger.stale.update(dict.fromkeys(self.ledger.pipelines.values()))
        rollout.refresh(self.ledger, now)
        self._asked: dict[bytes, float] = {}  # strangers, and when they were asked who they are
        self._dispatch_again = now
        self._housekeeping = now
        self._stepped = now
        self._beat = now
        self._last_tick = now
        self._handlers: dict[type, tuple[type, Callable[[Any, Any, float], None]]] = {
            Submit: (Gateway, self._submit),
            Results: (Worker, self._results),
            Steps: (Worker, self._steps),
            Credit: (Gateway, self._credit),
            GatewayBeat: (Gateway, self._gateway_beat),
            Cancel: (Gateway, self._cancel),
            Renew: (Worker, self._renew),
            WorkerBeat: (Worker, self._worker_beat),
            WorkerDraining: (Worker, self._worker_draining),
            Gone: (Worker, self._gone),
            Observations: (Worker, self._observations),
            WorkerFigures: (Worker, self._figures),
            SupervisorBeat: (Supervisor, self._supervisor_beat),
            Compared: (Comparer, self._compared),
        }

    # -------------------------------------------------------------- the four verbs

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take one event; returns what must be done at once. A tick is due then."""
        self._dispatch_again = now
        if type(event) is Received:
            self._received(event.peer, event.message, now)
        elif type(event) is PeerLost:
            self._lost(event, now)
        elif type(event) is Unreadable:
            self._unreadable(event)
        elif type(event) is Swept:
            self.ledger.slots.sweep(event.dead, event.alive, now)
        elif type(event) is Asked:
            operations.answer(self.ledger, event.asker, event.ask, now)
        elif type(event) is DrainAsked:
            drain.drain(self.ledger, now)
            operations.refuse_pending(self.ledger)
        if self.ledger.stale:
            rollout.refresh(self.ledger, now)
        return self._take_actions()

    def tick(self, now: float) -> list[Action]:
        """End a turn: dispatch, answer, and do what is due."""
        ledger = self.ledger
        gap = now - self._last_tick
        self._last_tick = now
        if gap > STALL_S:
            membership.forgive_silence(ledger, gap, now)
        if ledger.wheel.is_due(now):
            for item in ledger.wheel.expired(now):
                ledger.expire(item)
        if now >= self._housekeeping:
            self._housekeep(now)
        if now >= self._beat:
            self._beat = now + BEAT_S
            for peer in ledger.peers:
                ledger.send(peer, Beat(ledger.epoch))
        self._dispatch(now)
        if ledger.answering:
            self._send_answers(now)
        if ledger.unwanted:
            ledger.tell_unwanted()
        if ledger.outgoing:
            ledger.slots.release(ledger.outgoing)
            ledger.outgoing.clear()
        if ledger.catalog_changed:
            self._send_catalog()
        if ledger.slots.has_news:
            self._send_news()
        return self._take_actions()

    def next_deadline(self) -> float:
        """When `tick` must be called though nothing has happened."""
        due = self.ledger.wheel.next_due()
        soonest = min(self._dispatch_again, self._housekeeping, self._beat)
        return soonest if due is None or due > soonest else due

    def snapshot(self, now: float, extent: Extent = NOTHING_PAST) -> Snapshot:
        """How things stand, for status and metrics; `extent`: with how much of the past."""
        return snapshot(self.ledger, now, extent)

    def measure(self, now: float) -> Measurements:
        """The same for metrics, which show more."""
        return measure(self.ledger, self.lag.take(), now)

    # -------------------------------------------------------------- what peers say

    def _received(self, id: bytes, message: Any, now: float) -> None:
        ledger = self.ledger
        kind = type(message)
        peer = ledger.peers.get(id)
        if kind in HELLOS:
            self._hello(id, peer, message, now)
            return
        if kind is Bye:
            self._bye(peer, message.reason, now)
            return
        if peer is None or message.epoch != ledger.epoch:
            self._stranger(id, message, now)
            return
        peer.heard = now
        role, handler = self._handlers[kind]
        if type(peer) is not role:
            self._out_of_role(id, peer, message)
            return
        handler(peer, message, now)

    def _lost(self, event: PeerLost, now: float) -> None:
        peer = self.ledger.peers.get(event.peer)
        if isinstance(peer, Worker):
            recovery.returned(self.ledger, peer, event.unsent, now)
        membership.lose_peer(self.ledger, event.peer, event.reason, now, how=Loss.DIED)

    def _hello(self, id: bytes, known: Peer | None, message: Any, now: float) -> None:
        ledger = self.ledger
        kind = type(message)
        if known is not None:
            if type(known) is not HELLOS[kind]:
                self._out_of_role(id, known, message)
                return
            known.heard = now
        if kind is GatewayHello:
            membership.gateway_hello(ledger, id, message, now)
            if id in ledger.peers:
                ledger.send(id, catalog(ledger))
        elif kind is WorkerHello:
            membership.worker_hello(ledger, id, message, now)
        elif kind is ComparerHello:
            membership.comparer_hello(ledger, id, message, now)
        else:
            membership.supervisor_hello(ledger, id, message, now)

    def _out_of_role(self, id: bytes, peer: Peer, message: object) -> None:
        self.ledger.counters["out_of_role"] += 1
        what = f"a {type(peer).__name__.lower()} sent {type(message).__name__}"
        self.ledger.actions.append(Misbehaved(id, what))

    def _stranger(self, id: bytes, message: Any, now: float) -> None:
        """An unknown peer, or one that speaks of another epoch: ask who it is."""
        ledger = self.ledger
        ledger.counters["from_strangers"] += 1
        membership.heard_stranger(ledger, id, now)
        if type(message) is Results and message.epoch == ledger.epoch:
            accept(ledger, id, message, now)  # of a worker that had been given up
        self._ask_who(id, now)

    def _ask_who(self, id: bytes, now: float) -> None:
        if now - self._asked.get(id, -ASK_AGAIN_S) >= ASK_AGAIN_S:
            self._asked[id] = now
            self.ledger.send(id, Who(self.ledger.epoch))

    def _unreadable(self, event: Unreadable) -> None:
        """Refuse those ids of a submit that could be read in bytes that are no message."""
        gateway = self.ledger.peers.get(event.peer)
        if isinstance(gateway, Gateway):
            for seq in event.seqs:
                if seq not in gateway.items:
                    failure = Failure(ErrorCode.BAD_REQUEST, "the broker could not read it")
                    self.ledger.refuse(gateway, seq, failure)

    def _bye(self, peer: Peer | None, reason: str, now: float) -> None:
        if isinstance(peer, Gateway):
            membership.lose_gateway(self.ledger, peer, reason or "left")
        elif isinstance(peer, Worker):
            recovery.worker_left(self.ledger, peer, now)
        elif isinstance(peer, Supervisor):
            membership.supervisor_left(self.ledger, peer, reason or "left")
        elif isinstance(peer, Comparer):
            pairing.lose_comparer(self.ledger, peer, reason or "left")

    def _submit(self, gateway: Gateway, message: Submit, now: float) -> None:
        gateway.others = message.others
        submit(self.ledger, gateway, message.items, now)
        if message.traced:
            traces.begin(self.ledger, gateway, message.traced, now)

    def _cancel(self, gateway: Gateway, message: Cancel, now: float) -> None:
        for seq in message.seqs:
            item = gateway.items.get(seq)
            if item is not None:
                self.ledger.cancel(item)

    def _gateway_beat(self, gateway: Gateway, message: GatewayBeat, now: float) -> None:
        unknown = [seq for seq in message.waiting if seq not in gateway.items]
        if unknown and gateway.answers:  # they go out at the end of the turn
            answered = {answer.seq for answer in gateway.answers}
            unknown = [seq for seq in unknown if seq not in answered]
        if unknown:
            self.ledger.counters["asked_again"] += len(unknown)
            self.ledger.send(gateway.id, Unknown(self.ledger.epoch, unknown))

    def _results(self, worker: Worker, message: Results, now: float) -> None:
        accept(self.ledger, worker.id, message, now)

    def _steps(self, worker: Worker, message: Steps, now: float) -> None:
        streams.advance(self.ledger, worker, message.steps, now)

    def _credit(self, gateway: Gateway, message: Credit, now: float) -> None:
        streams.credit(self.ledger, gateway, message.taken, now)

    def _renew(self, worker: Worker, message: Renew, now: float) -> None:
        worker.spoke = now
        lease = worker.leases.get(message.lease)
        if lease is not None:
            lease.begun = True
            lease.expires = now + lease.stage.config.forward_timeout_s

    def _worker_beat(self, worker: Worker, message: WorkerBeat, now: float) -> None:
        worker.spoke = now
        if worker.streams or message.streaming:
            streams.compare(self.ledger, worker, message.streaming, now)
        keep_only(self.ledger, worker, message.kept)
        recovery.compare_holding(self.ledger, worker, message.holding, now)

    def _gone(self, worker: Worker, message: Gone, now: float) -> None:
        let_go(self.ledger, worker, message.slots)

    def _observations(self, worker: Worker, message: Observations, now: float) -> None:
        observations.take(worker, message)

    def _figures(self, worker: Worker, message: WorkerFigures, now: float) -> None:
        plugin_metrics.take(self.ledger.plugin_metrics, worker, message)

    def _worker_draining(self, worker: Worker, message: WorkerDraining, now: float) -> None:
        drain.worker_drains(self.ledger, worker, message.returned, now)

    def _compared(self, comparer: Comparer, message: Compared, now: float) -> None:
        pairing.judged(comparer, message.verdicts)

    def _supervisor_beat(self, peer: Supervisor, message: SupervisorBeat, now: float) -> None:
        ledger = self.ledger
        membership.supervisor_beat(ledger, peer, message.reports, message.versions, now)
        for worker_id in membership.strangers(ledger, peer, message.reports, now):
            self._ask_who(worker_id, now)  # sooner than it speaks by itself
        if message.draining:
            for report in message.reports:
                worker = ledger.peers.get(report.worker)
                if isinstance(worker, Worker) and worker.supervisor == peer.id:
                    drain.worker_drains(ledger, worker, [], now)

    # -------------------------------------------------------------- what the clock says

    def _housekeep(self, now: float) -> None:
        ledger = self.ledger
        self.lag.add(max(now - self._housekeeping, 0.0))
        self._housekeeping = now + HOUSEKEEPING_S
        membership.lose_silent(ledger, now)
        recovery.kill_hung(ledger, now)
        recovery.forget_given_up(ledger, now)
        membership.note_absence(ledger, now)
        for pipeline in ledger.pipelines.values():
            recent = pipeline.recent
            if pipeline.lately.is_due(now):
                pipeline.lately.mark(recent.errors + pipeline.refused, now)
            for stage in pipeline.stages:
                if stage.caps:
                    raise_caps(ledger, stage, now)
        drain.end_streams(ledger, now)
        drain.release_workers(ledger, now)
        guard.look(ledger, now)
        rollout.housekeep(ledger, now)
        shadow.sweep(ledger, now)
        if ledger.traced:
            traces.forget_old(ledger, now)
        if ledger.left_in_limbo:
            count_limbo(ledger)
        if ledger.slots.unsaid:
            self._send_news()
        if len(self._asked) > 1000:
            self._asked = {p: at for p, at in self._asked.items() if now - at < ASK_AGAIN_S}
        for note in ledger.noted:
            ledger.diary.note(note, now)
        ledger.noted.clear()
        if now - self._stepped >= STEP_S:
            take_a_step(ledger, now - self._stepped, now)
            self._stepped = now
        if drain.drained(ledger, now):
            ledger.actions.append(Stop())

    def _dispatch(self, now: float) -> None:
        ledger = self.ledger
        if ledger.mirrors:
            shadow.prepare(ledger, now)
        self._dispatch_again = dispatch(ledger, now) if ledger.busy_stages else inf
        if ledger.mirrors:
            shadow.end_turn(ledger, now)

    def _send_news(self) -> None:
        for peer, message in self.ledger.slots.news():
            self.ledger.send(peer, message)

    def _send_answers(self, now: float) -> None:
        ledger = self.ledger
        grown: dict[str, int] = {}
        for name, pipeline in ledger.pipelines.items():
            if (much := pipeline.grown_bytes()) > pipeline.config.max_bytes >> MUCH:
                grown[name] = much
        for gateway in ledger.answering.values():
            if gateway.values:
                ledger.send(gateway.id, Values(ledger.epoch, gateway.values))
                gateway.values = []
                if not gateway.answers:
                    continue
            answers = Answers(ledger.epoch, gateway.answers, grown=grown)
            if ledger.traced:
                answers.traces = traces.of_answered(ledger, gateway, gateway.answers, now)
            if ledger.slots.unsaid:
                answers.freed = ledger.slots.take_free(gateway.arena)
            # No gateway looks into the arenas of others.
            ledger.send(gateway.id, answers, fetch=gateway.fetch)
            gateway.answers = []
            gateway.fetch = False
        ledger.answering.clear()

    def _send_catalog(self) -> None:
        self.ledger.catalog_changed = False
        message = catalog(self.ledger)
        for peer in self.ledger.peers.values():
            if type(peer) is Gateway:
                self.ledger.send(peer.id, message)

    def _take_actions(self) -> list[Action]:
        actions = self.ledger.actions
        if actions:
            self.ledger.actions = []
        return actions
