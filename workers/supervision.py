"""A supervisor's side of the protocol, pure: it beats the heart for its workers.

Usage: send what `start` returns; give every message of the broker to `receive`; call `tick` with
how the workers are no later than `next_due()`, and at once when one of them has changed. Whatever
these return is to be sent, in order.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from broker.wire.messages import (
    BEAT_S,
    NO_EPOCH,
    SILENCE_S,
    Bye,
    Excuse,
    FromBroker,
    FromSupervisor,
    Kill,
    Refused,
    SupervisorBeat,
    SupervisorHello,
    Tend,
    VersionReport,
    Want,
    Welcome,
    Who,
    WorkerHealth,
    WorkerReport,
)
from workers.contact import Contact

MAX_FAILURE_CHARS = 300
"""The log has all of it."""


class KillOrder(Struct, frozen=True):
    """The broker wants this worker dead."""

    worker: bytes
    reason: str


class Excused(Struct, frozen=True):
    """The broker knows that this worker's death was a request's fault."""

    worker: bytes


class TendOrder(Struct, frozen=True):
    """An operator wants this of a worker's place."""

    index: int
    version: str
    wish: int
    reason: str


class Anew(Struct, frozen=True):
    """There is another broker, which knows of no wishes."""


Order: TypeAlias = KillOrder | Excused | TendOrder | Anew


def _shortened(versions: Sequence[VersionReport]) -> list[VersionReport]:
    return [
        VersionReport(each.version, each.state, each.detail[:MAX_FAILURE_CHARS])
        for each in versions
    ]


class Wish(Struct, frozen=True):
    """What a broker has said of the versions in a model repository."""

    wanted: frozenset[str] = frozenset()
    """To be loaded, whatever the policy says."""
    rejected: frozenset[str] = frozenset()
    """Rolled back: not to be loaded for being the newest."""


class SupervisorSession:
    """What one supervisor has to say to its broker, and when."""

    def __init__(self, hello: SupervisorHello, now: float) -> None:
        self.contact = Contact(now)
        self.draining = False
        self._hello = hello
        self._beat_due = now
        self._dead: list[tuple[float, WorkerReport]] = []
        self._wish: Wish | None = None  # of the broker of this epoch

    @property
    def epoch(self) -> int:
        """The broker's life that this supervisor belongs to; NO_EPOCH before the first."""
        return self.contact.epoch

    @property
    def stage(self) -> str:
        """The stage of its workers; "" as long as nobody knows."""
        return self._hello.stage

    def wish(self, now: float) -> Wish | None:
        """What the broker wants loaded; None while there is none that has said so."""
        return self._wish if self.contact.answers(now) else None

    def start(self, now: float) -> list[FromSupervisor]:
        """The supervisor begins."""
        return self._say_hello(now)

    def stage_known(self, stage: str, now: float) -> list[FromSupervisor]:
        """A worker has imported the script and knows which stage it serves."""
        if stage == self._hello.stage:
            return []
        self._hello = msgspec.structs.replace(self._hello, stage=stage)
        return self._say_hello(now)

    def died(
        self,
        worker: bytes,
        detail: str,
        now: float,
        *,
        out_of_memory: bool = False,
        failure: str = "",
        begun: tuple[int, int] = (NO_EPOCH, 0),
    ) -> None:
        """A worker is gone. It is reported for a while, since a beat may be lost.

        `out_of_memory`: the kernel killed it for want of memory. `failure`: why its script could
        not be loaded or set up. `begun`: the epoch and the lease of the batch that it began last.
        """
        epoch, lease = begun
        report = WorkerReport(
            worker,
            WorkerHealth.GONE,
            detail,
            out_of_memory,
            failure=failure[:MAX_FAILURE_CHARS],
            begun=lease if epoch == self.epoch else 0,
        )
        self._dead.append((now + SILENCE_S, report))
        self._beat_due = now

    def changed(self, now: float) -> None:
        """How a worker is has changed, or a drain began: the next `tick` says so."""
        self._beat_due = now

    def receive(self, message: FromBroker, now: float) -> tuple[list[FromSupervisor], Order | None]:
        """Takes in one message of the broker: what to send, and what to do with a worker."""
        if type(message) is Welcome:
            is_new = message.epoch != self.epoch
            if is_new:
                self._wish = None
            self.contact.welcomed(message.epoch, now)
            self._beat_due = now
            return [], Anew() if is_new else None
        elif type(message) is Refused:
            self.contact.refused(message.reason, now)
        elif type(message) is Who or message.epoch != self.epoch:
            return (self._say_hello(now) if self.contact.unknown(now) else []), None
        else:
            self.contact.heard(now)
            if type(message) is Kill:
                return [], KillOrder(message.worker, message.reason)
            if type(message) is Excuse:
                return [], Excused(message.worker)
            if type(message) is Tend:
                order = TendOrder(message.index, message.version, message.wish, message.reason)
                return [], order
            if type(message) is Want:
                self._wish = Wish(frozenset(message.versions), frozenset(message.rejected))
        return [], None

    def next_due(self) -> float:
        """When `tick` has to be called at the latest."""
        return min(self._beat_due, self.contact.next_due())

    def tick(
        self,
        living: list[WorkerReport],
        now: float,
        *,
        versions: Sequence[VersionReport] = (),
        trouble: str = "",
    ) -> list[FromSupervisor]:
        """What time asks for.

        `living`: how each worker is that has not died. `versions`: all that a model repository has.
        `trouble`: why there are no workers.
        """
        messages: list[FromSupervisor] = []
        if self.contact.hello_due(now):
            messages += self._say_hello(now)
        if now >= self._beat_due:
            self._beat_due = now + BEAT_S
            self._dead = [(until, report) for until, report in self._dead if now < until]
            if self.epoch != NO_EPOCH:
                reports = [*living, *(report for _, report in self._dead)]
                if trouble:  # of no worker in particular
                    why = trouble[:MAX_FAILURE_CHARS]
                    reports.append(WorkerReport(b"", WorkerHealth.GONE, failure=why))
                messages.append(
                    SupervisorBeat(self.epoch, reports, self.draining, _shortened(versions))
                )
        return messages

    def leave(self, reason: str) -> Bye:
        """The supervisor ends now, in order."""
        return Bye(self.epoch, reason)

    def _say_hello(self, now: float) -> list[FromSupervisor]:
        self.contact.said_hello(now)
        return [self._hello]
