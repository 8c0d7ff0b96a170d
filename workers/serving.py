"""What the plain loop and the event loop have in common: a session, its link, and what is reported.

Both call `pump` when something may have come, and `finish` with each batch that is done.
"""

import time
from collections.abc import Iterable

from broker.payload.arena import TRIM_EVERY_S
from broker.wire import log
from broker.wire.messages import Failure, FromWorker
from workers.doubts import Doubts
from workers.execute import Done
from workers.heap import Heap
from workers.link import Link
from workers.memory import SharedMemory
from workers.observations import Gathering
from workers.plugin_log import batch_fields
from workers.session import Held, Life, WorkerSession
from workers.signals import SignalCounter
from workers.streams import OpenStream
from workers.task import RefusedByBroker, StatusWriter, Welcomed
from workers.telling import Telling
from workers.wear import Wear
from workers.work import meta_of

_IN_THE_HEADER = frozenset((bytes, Failure))
"""Outcomes of these kinds refer to no memory that a plug-in may use again."""


class Serving:
    """One worker's session with its link."""

    def __init__(
        self,
        session: WorkerSession,
        link: Link,
        status: StatusWriter,
        memory: SharedMemory,
        *,
        wear: Wear,
        telling: Telling,
    ) -> None:
        self.session = session
        self.link = link
        self.memory = memory
        self._heap = Heap()
        self._ran_at = 0.0  # when a batch was run last
        self._care_at = 0.0
        self.status = status
        self.doubts = Doubts(has_example=False)
        self.gathering = Gathering()
        self._telling = telling
        self._wear = wear
        self._welcomed = False
        self._refused = ""
        self._drained = False
        self._unsent: FromWorker | None = None

    def send(self, messages: Iterable[FromWorker]) -> None:
        """What the session wants to say."""
        for message in messages:
            self.send_unsent()
            self.link.send(message)

    def send_unsent(self) -> None:
        """Sends the results that `finish` kept, if there are any."""
        unsent, self._unsent = self._unsent, None
        if unsent is not None:
            self.link.send(unsent)

    def pump(self, stop: SignalCounter, *, until_batch: bool = False) -> None:
        """Takes in all that has come, then what time asks for.

        With `until_batch` all else may wait as soon as there is something to run: looking whether
        there is more costs as much as reading it, and time asks for nothing that urgent.
        """
        session = self.session
        self.link.flush(0.0)
        now = time.monotonic()
        heard = False
        for message in self.link.receive():
            self.send(session.receive(message, now))
            if until_batch and session.has_batch and not stop.count:
                self._report()  # under load this may be the only way out of here
                return
            heard = True
        if heard:
            self._report()
        if stop.count and not self._drained:
            self.drain("SIGTERM")
        if now >= self._care_at:
            self._care(now)
        self.send(session.tick(now))

    def drain(self, why: str) -> None:
        """Begins to leave."""
        self._drained = True
        log.info("worker draining", why=why, holding=len(self.session.holding))
        self.send(self.session.drain(time.monotonic()))

    def wait_s(self) -> float:
        """How long there may be nothing to do."""
        due = min(self.session.next_due(), self.link.next_due())
        return max(0.0, due - time.monotonic())

    def send_steps(self) -> None:
        """What the open streams have come to goes out, unless the link is stuck."""
        self.link.flush(0.0)
        if self.session.streams.has_unsent and not self.link.is_stuck:
            self.send(self.session.steps())

    def finish(
        self, held: Held, done: Done, run_s: float, *, sample: bool, may_wait: bool = False
    ) -> list[OpenStream]:
        """Sends the results of a batch; returns those that are streams, to be advanced now.

        `may_wait`: `send_unsent` will be called soon, so that they need not leave before.
        """
        self.doubts.note(done)
        self._wear.batches += 1
        now = self._ran_at = time.monotonic()
        needs_seal = self.memory.needs_seal
        if needs_seal:
            self.memory.seal(done.outcomes)
        if now >= self._care_at:
            self._care(now)
        if log.is_on(log.DEBUG):
            fields = batch_fields(held.batch)
            log.debug("batch", items=len(done.outcomes), run_ms=run_s * 1000.0, **fields)
        opened = _streams(held, done)
        messages = self.session.finish(
            held,
            now,
            outcomes=done.outcomes,
            run_s=run_s,
            sample=sample and done.sample,
            content_type=done.content_type,
            out_of_memory=done.shortage.fewest,
            decode_s=done.phases.decode_s,
            forward_s=done.phases.forward_s,
            opened=opened,
            phases=_phases(held, done, run_s, now) if held.batch.traced else [],
        )
        is_light = _IN_THE_HEADER.issuperset(map(type, done.outcomes))
        if may_wait and is_light and len(messages) == 1 and not done.useless:
            self._unsent = messages[0]
        else:
            self.send(messages)
        if self.doubts.is_short and not self._drained:
            self.drain("its memory does not come back")
        if needs_seal and self.memory.found_full():
            self.send(self.session.ask_again(now))
        return opened

    def _care(self, now: float) -> None:
        """Once a second: memory that is not needed goes back to the system, and the supervisor is
        told when this process has served its time; the broker, what the plug-in observes.
        """
        self._care_at = now + TRIM_EVERY_S
        self.memory.tick()
        log.flush()
        self._heap.tick(now, self._ran_at)
        self.tell(now)
        worn = self._wear.judge(lambda: self._heap.give_back(now))
        if worn is not None:
            self.status.say(worn)

    def tell(self, now: float) -> None:
        """What the plug-in observes and counts goes to the broker; without one it waits for it."""
        session = self.session
        self.send(session.observed(self.gathering.take(), now))
        if session.contact.is_welcome and (figures := self._telling.take(session.epoch, now)):
            self.link.send(figures)

    def is_suspicious(self) -> bool:
        """Whether so much has failed that this process may be broken for good."""
        return self.doubts.are_grave and not self._drained

    def conclude(self, *, works: bool) -> None:
        """What came of a suspicion: one that is broken leaves, and its supervisor replaces it."""
        self.doubts.dispel()
        if not works:
            self.drain("forward fails whatever it is given")

    def _report(self) -> None:
        """Tells the supervisor, and the log, when the broker's mind has changed."""
        contact = self.session.contact
        if contact.is_welcome and not self._welcomed and self.session.life is not Life.LOADING:
            self._welcomed = True
            self.status.say(Welcomed())
        if contact.reason and contact.reason != self._refused:
            self.status.say(RefusedByBroker(contact.reason))
        self._refused = contact.reason


def _phases(held: Held, done: Done, run_s: float, now: float) -> list[float]:
    """As `Visit` has them."""
    return [max(now - held.received - run_s, 0.0), *done.phases]


def _streams(held: Held, done: Done) -> list[OpenStream]:
    batch = held.batch
    opened = []
    for place, iterator in done.streams.items():
        meta = meta_of(batch.items[place])
        key = (batch.lease, place)
        opened.append(OpenStream(key, iterator, meta.request_id, meta.accept))
    return opened
