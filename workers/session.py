"""A worker's side of the protocol, pure: messages and the time in, messages out.

    LOADING ──warm──► READY ──drain──► DRAINING ──dismissed, or nobody answers──► CLOSED

Beside its life a session knows whether a broker has welcomed it (`Contact`). Usage: construct it
once the script is imported and send what `start` returns; then give every message of the broker to
`receive`, run what `take` returns, say so to `finish`, and call `tick` no later than `next_due()`.
Whatever these return is to be sent, in order; `closed` says when to stop. No call raises because of
what the broker sends. During a call of forward nothing is heard, so read all there is to read
before `tick`.
"""

from collections import deque
from enum import IntEnum

import msgspec
from msgspec import Struct

from broker.wire.messages import (
    IDLE_BEAT_S,
    NO_EPOCH,
    Batch,
    Bye,
    Dismiss,
    FromBroker,
    FromWorker,
    Outcome,
    Refused,
    Renew,
    Results,
    Welcome,
    Who,
    WorkerBeat,
    WorkerDraining,
    WorkerHello,
)
from workers.contact import Contact

LEAVE_S = 3.7
"""A draining worker that is idle leaves after this long even undismissed. The broker lets it go
after 3.5 s at the latest, and honcho kills after 5."""


class Life(IntEnum):
    """How far a worker's life has come; it only goes forward."""

    LOADING = 0
    READY = 1
    DRAINING = 2
    CLOSED = 3


class Held(Struct, eq=False):
    """A batch that this worker holds, and when it came."""

    batch: Batch
    received: float


class WorkerSession:
    """What one worker process has to say to its broker, and when."""

    def __init__(self, hello: WorkerHello, now: float) -> None:
        """`hello` says what does not change: who, where, which stage; readiness is added here."""
        self.life = Life.LOADING
        self.contact = Contact(now)
        self._hello = hello
        self._queue: deque[Held] = deque()
        self._running: list[Held] = []
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
    ) -> list[FromWorker]:
        """A batch that `take` gave is done. Its results go out whatever epoch they are of."""
        self._running.remove(held)
        if sample:
            # Old figures fade, so that a later broker learns what is true today.
            size = len(outcomes)
            before = self._timings.get(size, run_s)
            self._timings[size] = before + 0.2 * (run_s - before)
        self._beat_due = now + IDLE_BEAT_S
        batch = held.batch
        results: FromWorker = Results(
            batch.epoch, batch.lease, outcomes, run_s, sample, content_type
        )
        if self._dismissed and not self._running:
            self.life = Life.CLOSED
        return [results]

    def drain(self, now: float) -> list[FromWorker]:
        """The process was asked to end: gives back what is not begun. Repeated, it does nothing."""
        if self.life >= Life.DRAINING:
            return []
        self.life = Life.DRAINING
        self._drain_since = now
        returned = [held.batch.lease for held in self._queue if held.batch.epoch == self.epoch]
        self._queue.clear()
        if self.contact.answers(now):
            return [WorkerDraining(self.epoch, returned)]
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
        if type(message) is Dismiss and self.life is Life.DRAINING:
            self._dismissed = True
            if not self._running:
                self.life = Life.CLOSED
        return []

    def _accept(self, batch: Batch, now: float) -> None:
        if (self._queue or self._running) and batch.lease in self.holding:
            return  # a message may come twice, a lease runs once
        self._queue.append(Held(batch, now))

    def _welcomed(self, welcome: Welcome, now: float) -> list[FromWorker]:
        self.contact.welcomed(welcome.epoch, now)
        # What another epoch sent ahead is submitted anew in this one; what runs is finished, for
        # its results may still be of use.
        self._queue = deque(held for held in self._queue if held.batch.epoch == welcome.epoch)
        if self.life is Life.DRAINING:
            return [WorkerDraining(self.epoch)]
        return []

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
                messages.append(WorkerBeat(self.epoch, self.holding))
                if self.life is Life.DRAINING:
                    messages.append(WorkerDraining(self.epoch))
        return messages

    def _leave_if_over(self, now: float) -> None:
        overdue = now - self._drain_since >= LEAVE_S
        if not self._running and (overdue or not self.contact.answers(now)):
            self.life = Life.CLOSED

    def _say_hello(self, now: float) -> list[FromWorker]:
        self.contact.said_hello(now)
        return [
            msgspec.structs.replace(
                self._hello,
                ready=self._is_warm,
                timings=sorted(self._timings.items()),
                holding=self.holding,
                epoch=self.epoch,
            )
        ]
