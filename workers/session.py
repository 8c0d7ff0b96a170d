"""A worker's side of the protocol, pure: messages and the time in, messages out.

    LOADING ──warm──► READY ──drain──► DRAINING ──dismissed, or nobody answers──► CLOSED

Beside its life a session knows whether a broker has welcomed it (`Contact`). Usage: construct it
once the script is imported and send what `start` returns; then give every message of the broker to
`receive`, run what `take` returns, say so to `finish`, and call `tick` no later than `next_due()`.
Whatever these return is to be sent, in order; `closed` says when to stop. No call raises because of
what the broker sends. During a call of forward nothing is heard, so read all there is to read
before `tick`.

Of shared memory it says what the broker has to know: which slots of others its process may still
look at, and that results refer to slots of its own. The batches that it holds count as looked at,
since a broker that does not know of their leases would not count them otherwise.
"""

from collections import deque
from collections.abc import Sequence
from enum import IntEnum

import msgspec
from msgspec import Struct

from broker.wire.frames import refs_of
from broker.wire.memory import NoMemory, WorkerMemory
from broker.wire.messages import (
    IDLE_BEAT_S,
    NO_EPOCH,
    Batch,
    Blob,
    Bye,
    Claims,
    Dismiss,
    Free,
    FromBroker,
    FromWorker,
    Gone,
    Observations,
    Observed,
    Outcome,
    Reference,
    Refused,
    Renew,
    Results,
    SlotKey,
    Steps,
    StreamCredit,
    StreamStop,
    Welcome,
    Who,
    WorkerBeat,
    WorkerDraining,
    WorkerHello,
)
from workers.contact import Contact
from workers.streams import OpenStream, OpenStreams

LEAVE_S = 3.7
"""A draining worker that is idle leaves after this long even undismissed. The broker lets it go
after 3.5 s at the latest, and honcho kills after 5."""

ASK_AGAIN_S = 1.0
"""A worker whose arena is full asks what is held of it this often at most."""


REFER_AGAIN_S = 60.0
"""A broker is told the references of the model this often."""


class Life(IntEnum):
    """How far a worker's life has come; it only goes forward."""

    LOADING = 0
    READY = 1
    DRAINING = 2
    CLOSED = 3


class Held(Struct, eq=False):
    """A batch that this worker holds, when it came, and the slots of others that it refers to."""

    batch: Batch
    received: float
    slots: tuple[SlotKey, ...] = ()


class WorkerSession:
    """What one worker process has to say to its broker, and when."""

    def __init__(self, hello: WorkerHello, now: float, memory: WorkerMemory | None = None) -> None:
        """`hello` says what does not change: who, where, which stage; readiness is added here."""
        self.life = Life.LOADING
        self.contact = Contact(now)
        self._hello = hello
        self._hello_at = now
        self._memory = memory if memory is not None else NoMemory()
        self._told: set[SlotKey] = set()  # slots of held batches that the broker was told of
        self._queue: deque[Held] = deque()
        self._running: list[Held] = []
        self.streams = OpenStreams()
        self.references: list[Reference] = []
        """Of the model, for what its plug-in observes."""
        self._referred_to = NO_EPOCH  # the broker that was told them, and when
        self._referred_at = now
        self._timings: dict[int, float] = {}
        self._beat_due = now + IDLE_BEAT_S
        self._drain_since = 0.0
        self._dismissed = False
        self._is_warm = False  # one that drains while it loads never becomes ready

    @property
    def epoch(self) -> int:
        """The broker's life that this worker belongs to; NO_EPOCH before the first."""
        return self.contact.epoch

    @property
    def closed(self) -> bool:
        """Whether the process may end."""
        return self.life is Life.CLOSED

    @property
    def has_batch(self) -> bool:
        """Whether `take` would give one."""
        return bool(self._queue)

    @property
    def holding(self) -> list[int]:
        """Leases of this epoch, begun or not, oldest first."""
        held = [*self._running, *self._queue]
        return [each.batch.lease for each in held if each.batch.epoch == self.epoch]

    # -------------------------------------------------------------- the worker's own events

    def start(self, now: float) -> list[FromWorker]:
        """The script is imported; setup begins."""
        return self._say_hello(now)

    def warm(
        self,
        now: float,
        *,
        max_batch_size: int,
        concurrency: int,
        repeatable: bool,
        timings: list[tuple[int, float]],
        signature: bytes = b"",
        max_streams: int = 1024,
    ) -> list[FromWorker]:
        """Setup and warm-up are done: this worker is ready. `timings` is (batch size, seconds)."""
        self.life = Life.READY
        self._is_warm = True
        self._beat_due = now + IDLE_BEAT_S
        self._timings = dict(timings)
        self._hello = msgspec.structs.replace(
            self._hello,
            max_batch_size=max_batch_size,
            concurrency=concurrency,
            repeatable=repeatable,
            signature=signature,
            max_streams=max_streams,
        )
        return self._say_hello(now)

    def take(self) -> Held | None:
        """The next batch to run, or None. It is held until `finish`."""
        if not self._queue:
            return None
        held = self._queue.popleft()
        self._running.append(held)
        return held

    def renew(self, held: Held) -> list[FromWorker]:
        """Another call of forward begins for a batch that `take` gave."""
        return [Renew(held.batch.epoch, held.batch.lease)]

    def finish(
        self,
        held: Held,
        now: float,
        *,
        outcomes: list[Outcome],
        run_s: float,
        sample: bool,
        content_type: str,
        out_of_memory: int = 0,
        decode_s: float = 0.0,
        forward_s: float = 0.0,
        opened: Sequence[OpenStream] = (),
        phases: Sequence[float] = (),
    ) -> list[FromWorker]:
        """A batch that `take` gave is done. Its results go out whatever epoch they are of, but a
        broker that does not know them takes none of the slots in them over: those are dropped.
        `out_of_memory` is the fewest items for which `forward` ran out of memory, 0 for none;
        `decode_s` and `forward_s` are what of `run_s` went there.
        `opened` are those of its results that are streams, which a broker that is gone ends;
        `phases` is what `Visit` says of a batch that is traced.
        """
        self._running.remove(held)
        if sample:
            # Old figures fade, so that a later broker learns what is true today.
            size = len(outcomes)
            before = self._timings.get(size, run_s)
            self._timings[size] = before + 0.2 * (run_s - before)
        self._beat_due = now + IDLE_BEAT_S
        batch = held.batch
        results = Results(
            batch.epoch, batch.lease, outcomes, run_s, sample, content_type, [], out_of_memory,
            decode_s, forward_s,
        )  # fmt: skip
        if phases:
            results.phases = list(phases)
        messages: list[FromWorker] = [results]
        if self._memory.arena:
            self._hand_over(batch.epoch, outcomes)
            if held.slots:
                results.kept = self._memory.kept(held.slots)
            messages += self._gone()
        if opened:
            messages += self._open(opened, batch.epoch)
        if self._dismissed and not self._running:
            self.life = Life.CLOSED
        return messages

    def _open(self, opened: Sequence[OpenStream], epoch: int) -> list[FromWorker]:
        if epoch != self.epoch:
            for stream in opened:
                stream.is_over = True
            return []
        first = not self.streams
        for stream in opened:
            self.streams.open(stream)
        # From now on the broker counts the time of a call from when it is told of its beginning.
        return [each for held in self._running for each in self.renew(held)] if first else []

    def steps(self) -> list[FromWorker]:
        """What the open streams have come to since this was last asked."""
        return [Steps(self.epoch, self.streams.take_unsent())]

    def observed(self, observed: list[Observed], now: float) -> list[FromWorker]:
        """The plug-in has observed this; it is lost where no broker is there. References of the
        model go with it now and then, since a message may be lost.
        """
        if not observed or not self.contact.is_welcome:
            return []
        references: list[Reference] = []
        if self.epoch != self._referred_to or now - self._referred_at >= REFER_AGAIN_S:
            self._referred_to, self._referred_at = self.epoch, now
            references = self.references
        return [Observations(self.epoch, observed, references)]

    def ask_again(self, now: float) -> list[FromWorker]:
        """The arena is full: asks what is held of it, since a word that freed some may be lost."""
        if not self.contact.is_welcome or now - self._hello_at < ASK_AGAIN_S:
            return []
        return self._say_hello(now)

    def drain(self, now: float) -> list[FromWorker]:
        """The process was asked to end: gives back what is not begun. Repeated, it does nothing."""
        if self.life >= Life.DRAINING:
            return []
        self.life = Life.DRAINING
        self._drain_since = now
        returned = [held.batch.lease for held in self._queue if held.batch.epoch == self.epoch]
        self._queue.clear()
        if self.contact.answers(now):
            return [WorkerDraining(self.epoch, returned), *self._gone()]
        self._leave_if_over(now)
        return []

    def leave(self) -> Bye:
        """The process ends now, in order."""
        return Bye(self.epoch, "drained")

    # -------------------------------------------------------------- the broker's messages

    def receive(self, message: FromBroker, now: float) -> list[FromWorker]:
        """Takes in one message of the broker."""
        if type(message) is Batch and message.epoch == self.epoch:
            self.contact.heard(now)
            if message.freed:
                self._memory.free(message.freed)
            self._accept(message, now)
            return []
        if type(message) is Welcome:
            return self._welcomed(message, now)
        if type(message) is Refused:
            self.contact.refused(message.reason, now)
            return []
        if type(message) is Who or message.epoch != self.epoch:
            return self._say_hello(now) if self.contact.unknown(now) else []
        self.contact.heard(now)
        if type(message) is StreamCredit:
            self.streams.credit(message.taken)
        elif type(message) is StreamStop:
            self.streams.stop(message.streams)
        elif type(message) is Dismiss and self.life is Life.DRAINING:
            self._dismissed = True
            if not self._running:
                self.life = Life.CLOSED
        elif type(message) is Free:
            self._memory.free(message.generations)
        elif type(message) is Claims and message.generation <= self._memory.generation:
            self._memory.settle(message.generation, message.held)  # not of an arena of before
        return []

    def _accept(self, batch: Batch, now: float) -> None:
        if (self._queue or self._running) and batch.lease in self.holding:
            return  # a message may come twice, a lease runs once
        self._queue.append(Held(batch, now, _slots_of(batch) if self._memory.arena else ()))

    def _welcomed(self, welcome: Welcome, now: float) -> list[FromWorker]:
        if welcome.epoch != self.epoch:
            self.streams.stop_all()
        self.contact.welcomed(welcome.epoch, now)
        # What another epoch sent ahead is submitted anew in this one; what runs is finished, for
        # its results may still be of use.
        self._queue = deque(held for held in self._queue if held.batch.epoch == welcome.epoch)
        messages: list[FromWorker] = []
        if self.life is Life.DRAINING:
            messages.append(WorkerDraining(self.epoch))
        if self._memory.join(welcome.arenas, welcome.token):
            messages += self._say_hello(now)
        return messages + self._gone()

    # -------------------------------------------------------------- shared memory

    def _hand_over(self, epoch: int, outcomes: Sequence[Outcome]) -> None:
        """The broker holds from now on what these refer to."""
        refs = [
            ref
            for outcome in outcomes
            if type(outcome) is Blob and outcome.refs
            for ref in refs_of(outcome)
        ]
        if refs:
            if epoch == self.epoch:
                self._memory.publish(refs)
            self._memory.drop(refs)

    def _kept(self) -> list[SlotKey]:
        """All slots of others that are looked at, or may be for a batch that is held."""
        self._told.update(slot for held in (*self._running, *self._queue) for slot in held.slots)
        return sorted({*self._memory.all_kept(), *self._told})

    def _gone(self) -> list[FromWorker]:
        """What the broker was told of, and nobody looks at any longer."""
        if not self.contact.is_welcome:
            return []  # the next HELLO says it
        gone = self._memory.gone()
        if self._told:
            held = {slot for held in (*self._running, *self._queue) for slot in held.slots}
            ended = self._told - held
            self._told -= ended
            gone += ended.difference(self._memory.all_kept(), gone)
            gone = [slot for slot in gone if slot not in self._told]
        return [Gone(self.epoch, gone)] if gone else []

    # -------------------------------------------------------------- time

    def next_due(self) -> float:
        """When `tick` has to be called at the latest."""
        due = min(self._beat_due, self.contact.next_due())
        if self.life is Life.DRAINING:
            due = min(due, self._drain_since + LEAVE_S)
        return due

    def tick(self, now: float) -> list[FromWorker]:
        """What time asks for: beats, a hello after silence, the end of a drain."""
        if self.life is Life.DRAINING:
            self._leave_if_over(now)
        if self.closed:
            return []
        messages: list[FromWorker] = []
        if self.contact.hello_due(now):
            messages += self._say_hello(now)
        if now >= self._beat_due:
            self._beat_due = now + IDLE_BEAT_S
            if self.epoch != NO_EPOCH and self.life is not Life.LOADING:
                beat = WorkerBeat(self.epoch, self.holding, self._kept(), self.streams.keys)
                messages.append(beat)
                if self.life is Life.DRAINING:
                    messages.append(WorkerDraining(self.epoch))
        return messages + self._gone() if self._memory.arena else messages

    def _leave_if_over(self, now: float) -> None:
        overdue = now - self._drain_since >= LEAVE_S
        if not self._running and (overdue or not self.contact.answers(now)):
            self.life = Life.CLOSED

    def _say_hello(self, now: float) -> list[FromWorker]:
        self.contact.said_hello(now)
        self._hello_at = now
        memory = self._memory
        return [
            msgspec.structs.replace(
                self._hello,
                ready=self._is_warm,
                timings=sorted(self._timings.items()),
                holding=self.holding,
                epoch=self.epoch,
                arena=memory.arena,
                generation=memory.generation,
                kept=self._kept(),
            )
        ]


def _slots_of(batch: Batch) -> tuple[SlotKey, ...]:
    """The slots that a batch refers to, each once."""
    refs = [
        ref
        for item in batch.items
        if type(item.payload) is Blob and item.payload.refs
        for ref in refs_of(item.payload)
    ]
    return tuple(dict.fromkeys((ref.arena, ref.generation) for ref in refs))
