"""The state of the broker, and the few operations that keep its counts true.

Every item is in exactly one place, and every count changes here: admission, dispatch and recovery
decide, and call these. `invariants.check` states what must hold between two events.
"""

from collections import Counter
from typing import TYPE_CHECKING

from broker.core import traces
from broker.core.config import PipelineConfig
from broker.core.diary import Diary
from broker.core.events import Action, Note, Reply, Send
from broker.core.item import DEFAULT_VERSION, Item, Lease, Stream
from broker.core.measures import Return
from broker.core.peers import Comparer, Gateway, Supervisor, Worker
from broker.core.plugin_metrics import PluginMetrics
from broker.core.posts import Posts
from broker.core.slots import Slots, slots_of
from broker.core.stage import Lane, Pipeline, Stage
from broker.core.states import (
    BROKER_ROWS,
    BrokerState,
    BrokerTrigger,
    ItemState,
    ItemTrigger,
    invalid,
)
from broker.core.traces import Traced
from broker.core.traffic import Traffic
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Answer,
    Blob,
    Failure,
    FromBroker,
    Outcome,
    Payload,
    Refused,
    Report,
    SlotKey,
    Streamed,
    StreamKey,
    StreamStop,
    SubmitItem,
    Unknown,
    Value,
    Welcome,
)
from broker.wire.wheel import TimerWheel

if TYPE_CHECKING:
    from broker.core.mirror import Mirror

Peer = Gateway | Worker | Supervisor | Comparer

# To look a member of an enum up takes as long as two other things.
_LEASED = ItemState.LEASED
_ANSWER = ItemTrigger.ANSWER
_DISPATCH = ItemTrigger.DISPATCH

RESTARTS_KEPT = 4096
"""Of so many restarted requests of a gateway it is remembered how often they were."""


class Ledger:
    """All that the broker knows at one moment."""

    def __init__(
        self,
        pipelines: dict[str, PipelineConfig],
        *,
        welcome: Welcome,
        now: float,
        traffic: dict[str, Traffic] | None = None,
        wall_offset_s: float = 0.0,
    ) -> None:
        """`welcome` is what every peer is told that says HELLO; its epoch is this broker's.
        `traffic` was kept of an earlier one.
        """
        kept = traffic or {}
        epoch = welcome.epoch
        self.epoch = epoch
        self.welcome = welcome
        self.began = now
        self.state = BrokerState.RUNNING
        self.drain_since = now
        self.pipelines = {
            name: Pipeline(name, conf, now, kept.get(name)) for name, conf in pipelines.items()
        }
        self.peers: dict[bytes, Peer] = {}
        self.gateways: dict[bytes, Gateway] = {}  # of these
        self.leases: dict[int, Lease] = {}
        self.given_up: dict[int, Lease] = {}  # leases of lost workers, for results that come late
        self.wheel: TimerWheel[int, Item] = TimerWheel()
        self.answering: dict[bytes, Gateway] = {}
        self.slots = Slots(epoch=epoch, now=now)
        # By the arena of a lost worker: what it was sent, and may still look at.
        self.left_in_limbo: dict[int, list[tuple[Item, tuple[SlotKey, ...], int]]] = {}
        self.outgoing: list[SlotKey] = []  # held for answers that leave at the end of this turn
        self.unwanted: dict[bytes, list[StreamKey]] = {}  # streams, by their workers; to be told
        self.draining_workers: dict[bytes, Worker] = {}
        self.held = 0  # items of all pipelines
        self.busy_stages: dict[Stage, None] = {}  # those with queued items
        self.traced: Traced = {}
        self.counters: Counter[str] = Counter()
        self.plugin_metrics = PluginMetrics()
        self.refused: Counter[int] = Counter()  # requests for no pipeline, by error code
        self.actions: list[Action] = []
        self.catalog_changed = False
        self.stale: dict[Pipeline, None] = {}  # whose workers or supervisors have changed
        self.wall_offset_s = wall_offset_s
        self.diary = Diary(wall_offset_s)
        self.noted: list[Note] = []  # and not yet in the diary
        self.posts = Posts()
        self.mirrors: dict[Pipeline, Mirror] = {}  # of pipelines that have a shadow
        self.comparer: Comparer | None = None
        self.pair_ids = 0
        self._item_ids = 0
        self._lease_ids = 0

    # -------------------------------------------------------------- actions

    def send(self, peer: bytes, message: FromBroker, *, fetch: bool = False) -> None:
        self.actions.append(Send(peer, message, fetch))

    def reply(self, asker: bytes, message: Report | Refused) -> None:
        self.actions.append(Reply(asker, message))

    def note(self, what: str, **fields: str | int | float) -> None:
        note = Note(what, fields)
        self.actions.append(note)
        self.noted.append(note)

    def advance(self, trigger: BrokerTrigger) -> None:
        self.state = BROKER_ROWS[self.state][trigger] or invalid(self.state, trigger, self)

    # -------------------------------------------------------------- items

    def admit(self, gateway: Gateway, pipeline: Pipeline, entry: SubmitItem, now: float) -> None:
        """Take a request in: from now on it is owed one answer."""
        self._item_ids += 1
        payload = entry.payload
        size = len(payload) + len(entry.meta)
        version = entry.version
        item = Item(
            self._item_ids,
            gateway,
            entry.seq,
            pipeline,
            pipeline.stages[0],
            payload,
            entry.meta,
            size,
            size,
            now + entry.left_s,
            entry.client,
            entry.priority,
            version,
            version or DEFAULT_VERSION,
            now,
            entry.key,
        )
        if type(payload) is Blob and payload.refs:
            item.slots = slots_of(payload)
            self.slots.hold(item.slots)
        gateway.items[entry.seq] = item
        pipeline.admitted += 1
        self.held += 1
        pipeline.items += 1
        pipeline.bytes += size
        pipeline.body_bytes += size
        self.wheel.add(item.deadline, item.id, item)
        self._enqueue(item, item.stage)

    def refuse(
        self, gateway: Gateway, seq: int, failure: Failure, pipeline: Pipeline | None = None
    ) -> None:
        """Answer a request that is not taken in. `pipeline` is None where it named none."""
        refused = self.refused if pipeline is None else pipeline.refused
        refused[failure.code] += 1
        self.counters[f"refused_{ErrorCode(failure.code).name.lower()}"] += 1
        self._reply(gateway, Answer(seq, failure))

    def answer(self, item: Item, outcome: Outcome, content_type: str = "") -> None:
        """Give an item its one answer."""
        self._leave(item, _ANSWER)
        by, spans = item.answered_by, item.spans
        tally = item.pipeline.tallies.get(by) or item.pipeline.tally(by)
        if type(outcome) is bytes:
            tally.count_result(spans, item.key)
        else:
            code = outcome.code if type(outcome) is Failure else 0
            tally.count(spans, code, item.key)
            if code:
                item.pipeline.recent.failed(code)
            elif type(outcome) is Blob and outcome.refs:
                self._answer_in_memory(item.gateway, outcome)
        gateway = item.gateway
        gateway.answers.append(Answer(item.seq, outcome, by, spans, content_type))
        self.answering[gateway.id] = gateway

    def _answer_in_memory(self, gateway: Gateway, outcome: Blob) -> None:
        slots = slots_of(outcome)
        self.slots.hold(slots)
        self.outgoing += slots
        gateway.fetch = True

    def fail(self, item: Item, code: ErrorCode, message: str) -> None:
        """Answer an item with an error of ours."""
        item.stage.failed += 1
        self.answer(item, Failure(code, message))

    def turn_out(self, item: Item, failure: Failure) -> None:
        """Answer an item that waits with an error that is none of its stage."""
        item.stage.flow.left["refused"] += 1
        self.answer(item, failure)

    def expire(self, item: Item) -> None:
        """Its deadline has passed: say so, at whatever stage it is."""
        if item.stream is not None and item.stream.values:
            self._look_at_idle_stream(item)
            return
        self.counters["expired"] += 1
        item.stage.flow.left["expired"] += 1
        if self.traced:
            traces.leaves_unfinished(item, "deadline_exceeded")
        self._leave(item, ItemTrigger.EXPIRE)
        tally = item.stage.pipeline.tally(item.answered_by)
        tally.count(item.spans, ErrorCode.DEADLINE_EXCEEDED, item.key)
        item.pipeline.recent.failed(ErrorCode.DEADLINE_EXCEEDED)
        failure = Failure(ErrorCode.DEADLINE_EXCEEDED, "the deadline passed before the answer")
        self._reply(item.gateway, Answer(item.seq, failure, item.answered_by, item.spans))

    def cancel(self, item: Item) -> None:
        """Nobody waits for it any longer: it leaves without an answer."""
        self.counters["cancelled"] += 1
        item.pipeline.cancelled += 1
        item.stage.flow.left["cancelled"] += 1
        if self.traced:
            traces.leaves_unfinished(item, "cancelled")
            traces.tell_cancelled(self, item)
        self._leave(item, ItemTrigger.CANCEL)

    def drop(self, item: Item) -> None:
        """A copy is given up: nobody ever waited for it."""
        self._leave(item, ItemTrigger.CANCEL)

    def restart(self, item: Item, reason: str) -> None:
        """Its payload cannot be read: it begins anew, when its gateway submits it again. Where that
        may not be, or has been done often enough, it fails.
        """
        self.counters["payloads_lost"] += 1
        gateway, seq = item.gateway, item.seq
        times = gateway.restarts.get(seq, 0) + 1
        passed = item.pipeline.stages[: item.stage.index]
        final = not all(stage.repeatable for stage in passed)
        if final or times > item.pipeline.config.attempts:
            self.fail(item, ErrorCode.WORKER_LOST, f"its payload was lost: {reason}")
            return
        item.pipeline.begun_anew += 1
        item.stage.flow.left["begun_anew"] += 1
        self._leave(item, ItemTrigger.CANCEL)
        if len(gateway.restarts) >= RESTARTS_KEPT:
            gateway.restarts.clear()
        gateway.restarts[seq] = times
        self.send(gateway.id, Unknown(self.epoch, [seq]))

    def discard(self, payload: Payload | Failure | Streamed) -> None:
        """A payload came that nobody needs."""
        if type(payload) is Blob and payload.refs:
            self.slots.pass_over(slots_of(payload))

    def forward(self, item: Item, payload: Payload, now: float) -> None:
        """Its stage is done: put it into the queue of the next."""
        self._unplace(item, ItemTrigger.ADVANCE)
        grown = len(payload)
        item.stage.learn_growth(grown)
        size = item.body_size + grown
        item.pipeline.bytes += size - item.size
        if item.slots:
            self.slots.release(item.slots)
            item.slots = ()
        if type(payload) is Blob and payload.refs:
            item.slots = slots_of(payload)
            self.slots.hold(item.slots)
        item.payload = payload
        item.size = size
        item.entered = now
        item.attempts = 0
        item.exposures_s = ()
        item.suspect = False
        self._enqueue(item, item.stage.following)

    def requeue(self, item: Item, reason: Return, *, suspect: bool) -> None:
        """Put a leased item back at the head of its stage's queue."""
        self._unplace(item, ItemTrigger.REQUEUE)
        item.stage.flow.returned[reason] += 1
        item.suspect = suspect
        lane = item.stage.lane(item.version)
        item.lane = lane
        item.stage.queued += 1
        self.busy_stages[item.stage] = None
        if suspect:
            lane.suspects.append(item)
        else:
            lane.queue.push_front(item)
        self.counters["requeued"] += 1

    def _enqueue(self, item: Item, stage: Stage) -> None:
        item.stage = stage
        lane = item.lane = stage.lane(item.version) if item.version else stage.lanes[""]
        lane.queue.push(item)
        stage.queued += 1
        self.busy_stages[stage] = None
        if stage.forked is not None:
            stage.forked.append(item)

    def _unplace(self, item: Item, trigger: ItemTrigger) -> None:
        """Advance an item, and take it out of where it was counted. One that lives on leaves no
        entry behind in its queue: it would pass for a waiting one.
        """
        was = item.state
        item.advance(trigger)  # first: a queue tells the dead from the living by their state
        stage = item.stage
        if was is _LEASED:
            stage.leased -= 1
            item.lease = None
            return
        if was is ItemState.STREAMING:
            self._close_stream(item, trigger)
            return
        stage.queued -= 1
        assert item.lane is not None, "a queued item has a lane"
        if item.suspect:
            item.lane.suspects.remove(item)
        elif trigger is ItemTrigger.ADVANCE:
            item.lane.queue.remove(item)
        else:
            item.lane.queue.discard(item)

    def _leave(self, item: Item, trigger: ItemTrigger) -> None:
        self._unplace(item, trigger)
        self.wheel.discard(item.deadline, item.id)
        pipeline = item.pipeline
        self.held -= 1
        pipeline.items -= 1
        pipeline.bytes -= item.size
        pipeline.body_bytes -= item.body_size
        item.payload = b""  # a dead entry in a queue holds no buffers
        if item.slots:
            self.slots.release(item.slots)
            item.slots = ()
        gateway = item.gateway
        del gateway.items[item.seq]
        if gateway.restarts:
            gateway.restarts.pop(item.seq, None)

    def _reply(self, gateway: Gateway, answer: Answer) -> None:
        gateway.answers.append(answer)
        self.answering[gateway.id] = gateway

    # -------------------------------------------------------------- streams

    def open_stream(self, item: Item, worker: Worker, key: StreamKey, now: float) -> None:
        """The result of a leased item is a stream. It may begin anew until its first value."""
        item.advance(ItemTrigger.OPEN)
        item.lease = None
        stage = item.stage
        stage.leased -= 1
        stage.streaming += 1
        item.stream = Stream(worker, key, due=item.deadline, now=now)
        worker.streams[key] = item
        if worker.is_full:
            self.place(worker)

    def pass_value(self, item: Item, stream: Stream, payload: Payload, now: float) -> None:
        """A stream has a further value. The first one ends the time in which it may be repeated,
        and its own payload is needed no longer.
        """
        stream.values += 1
        stream.due = now + item.pipeline.config.stream_idle_s
        value = Value(item.seq, stream.values, payload)
        if stream.values == 1:
            value.version, value.spans = item.answered_by, item.spans
            self._let_go_of_payload(item)
            self.wheel.discard(item.deadline, item.id)
            item.deadline = stream.due
            self.wheel.add(item.deadline, item.id, item)
        size = len(payload)
        stream.window.send(size)
        item.size += size
        item.pipeline.bytes += size
        item.gateway.values.append(value)
        self.answering[item.gateway.id] = item.gateway

    def values_taken(self, item: Item, stream: Stream, values: int, now: float) -> None:
        """Its client has taken so many, from the first one on."""
        window = stream.window
        if values <= window.taken:
            return
        before = window.bytes
        window.take(values)
        item.size -= before - window.bytes
        item.pipeline.bytes -= before - window.bytes
        stream.due = now + item.pipeline.config.stream_idle_s

    def break_stream(self, item: Item, stream: Stream, code: ErrorCode, message: str) -> None:
        """End it with an error of ours."""
        self.fail(item, code, message)
        self.stop_stream(stream.worker.id, stream.key)

    def stop_stream(self, worker: bytes, key: StreamKey) -> None:
        """Nobody wants anything more of this stream: its worker is told at the end of the turn."""
        self.unwanted.setdefault(worker, []).append(key)
        peer = self.peers.get(worker)
        if isinstance(peer, Worker):
            peer.stop_told = peer.spoke

    def tell_unwanted(self) -> None:
        """End of a turn: what `stop_stream` was about."""
        for worker, keys in self.unwanted.items():
            self.send(worker, StreamStop(self.epoch, keys))
        self.unwanted.clear()

    def _let_go_of_payload(self, item: Item) -> None:
        item.payload = b""
        item.pipeline.bytes -= item.size - item.body_size
        item.size = item.body_size
        if item.slots:
            self.slots.release(item.slots)
            item.slots = ()

    def _close_stream(self, item: Item, trigger: ItemTrigger) -> None:
        stream = item.stream
        assert stream is not None, "an item that streams has a stream"
        item.stream = None
        if trigger in (ItemTrigger.CANCEL, ItemTrigger.EXPIRE):
            self.stop_stream(stream.worker.id, stream.key)
        item.stage.streaming -= 1
        worker = stream.worker
        was_full = worker.is_full
        del worker.streams[stream.key]
        if was_full:
            self.place(worker)
        if not worker.streams:  # it may have come to these only now
            for lease in worker.running():
                lease.expires = worker.spoke + lease.stage.config.forward_timeout_s

    def _look_at_idle_stream(self, item: Item) -> None:
        """The time is up that a stream had once: values have come since, for each of which the
        wheel is not turned, or it is idle. One that its client holds back is not.
        """
        stream = item.stream
        assert stream is not None, "an item that streams has a stream"
        idle_s = item.pipeline.config.stream_idle_s
        due = stream.due if stream.window.is_open else item.deadline + idle_s
        if due > item.deadline:
            item.deadline = due
            self.wheel.add(due, item.id, item)
            return
        self.counters["streams_idle"] += 1
        text = f"no further value came within stream_idle_s = {idle_s:g}"
        self.break_stream(item, stream, ErrorCode.DEADLINE_EXCEEDED, text)

    # -------------------------------------------------------------- leases

    def lease(self, worker: Worker, lane: Lane, items: list[Item], now: float) -> Lease:
        """Give taken items to a worker."""
        self._lease_ids += 1
        stage = lane.stage
        alone = items[0].suspect
        size = len(items)
        growth = stage.growth * size
        lease = Lease(self._lease_ids, worker, lane, stage, items, size, growth, alone, now)
        slots: tuple[SlotKey, ...] = ()
        for item in items:
            item.advance(_DISPATCH)
            item.lease = lease
            if item.slots:
                slots += item.slots
        if slots:
            self._show(lease, slots)
        stage.queued -= size
        stage.leased += size
        stage.flow.dispatched += size
        stage.pipeline.growing += growth
        if alone:
            lane.suspects_out += 1
        self.leases[lease.id] = lease
        worker.leases[lease.id] = lease
        self.start_leases(worker, now)
        self.place(worker)
        return lease

    def _show(self, lease: Lease, slots: tuple[SlotKey, ...]) -> None:
        """A worker gets to look at these slots, if it can."""
        if lease.worker.arena:
            lease.slots = tuple(dict.fromkeys(slots))
            self.slots.hold(lease.slots)
        else:
            lease.fetch = True

    def end_lease(self, lease: Lease, now: float) -> None:
        """A lease is over, whatever became of its items."""
        if lease.traced:
            traces.lease_ended(lease, now)
        worker = lease.worker
        del self.leases[lease.id]
        del worker.leases[lease.id]
        if lease.slots:
            self.slots.release(lease.slots)
            lease.slots = ()
        lease.stage.pipeline.growing -= lease.growth
        if lease.alone:
            lease.lane.suspects_out -= 1
        self.start_leases(worker, now)
        self.place(worker)

    def start_leases(self, worker: Worker, now: float) -> None:
        """Start the clock of those leases that the worker has come to."""
        if not worker.leases:
            return
        for lease in worker.running():
            if lease.started is None:
                lease.started = now
                lease.expires = now + lease.stage.config.forward_timeout_s

    # -------------------------------------------------------------- workers

    def place(self, worker: Worker) -> None:
        """Put a worker where its stages look for free hands, by what it holds and may be sent."""
        leases = worker.leases
        held = len(leases)
        open = worker.serving and not worker.is_full
        if held and open and next(iter(leases.values())).alone:
            open = False
        idle = open and held < worker.concurrency
        spare = open and not idle and held < worker.credit
        for stage in worker.stages:
            stage.idle.pop(worker, None)
            if idle:
                stage.idle[worker] = None  # at the end, also when it was there before
            if spare:
                stage.spare[worker] = None
            else:
                stage.spare.pop(worker, None)

    def remeasure(self, worker: Worker) -> None:
        """A worker came, went, or became ready or not: what depends on that follows."""
        self.place(worker)
        for stage in worker.stages:
            stage.measure_room()
            self.stale[stage.pipeline] = None
        self.catalog_changed = True
