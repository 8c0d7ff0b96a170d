"""What the plain loop and the event loop have in common: a session, its link, and what is reported.

Both call `pump` when something may have come, and `finish` with each batch that is done.
"""

import time
from collections.abc import Iterable

from broker.payload.arena import TRIM_EVERY_S
from broker.wire import log
from broker.wire.messages import FromWorker
from workers.execute import Done, has_result
from workers.heap import Heap
from workers.link import Link
from workers.memory import SharedMemory
from workers.session import Held, Life, WorkerSession
from workers.shortage import Shortage
from workers.signals import SignalCounter
from workers.task import RefusedByBroker, StatusWriter, Welcomed

_DOUBTS = 3
"""After so many batches in a row of which `forward` failed every item, a worker tries its example:
a broken device fails whatever it is given."""
_DOUBTS_WITHOUT_EXAMPLE = 20
"""A worker that has no example gives up after so many: by then it is hardly the requests."""
_SHORT = 3
"""A worker without an example whose memory ran out under so many items alone, one after the other,
leaves: what holds its memory does not let go of it."""
_SHORT_DESPITE_EXAMPLE = 20
"""One whose example still works leaves after so many: requests are rarely like its example."""


class Serving:
    """One worker's session with its link."""

    def __init__(
        self, session: WorkerSession, link: Link, status: StatusWriter, memory: SharedMemory
    ) -> None:
        self.session = session
        self.link = link
        self.memory = memory
        self._heap = Heap()
        self._ran_at = 0.0  # when a batch was run last
        self._care_at = 0.0
        self.status = status
        self.useless_in_a_row = 0
        self.has_example = False
        self._short_in_a_row = 0  # items that ran out of memory alone
        self._welcomed = False
        self._refused = ""
        self._drained = False

    def send(self, messages: Iterable[FromWorker]) -> None:
        """What the session wants to say."""
        for message in messages:
            self.link.send(message)

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
        return max(0.0, self.session.next_due() - time.monotonic())

    def finish(self, held: Held, done: Done, run_s: float, *, sample: bool) -> None:
        """Sends the results of a batch."""
        if done.useless:
            self.useless_in_a_row += 1
        elif self.useless_in_a_row and has_result(done.outcomes):
            self.useless_in_a_row = 0  # where all were rejected nothing is shown
        now = self._ran_at = time.monotonic()
        needs_seal = self.memory.needs_seal
        if needs_seal:
            self.memory.seal(done.outcomes)
        if now >= self._care_at:
            self._care(now)
        self.send(
            self.session.finish(
                held,
                now,
                outcomes=done.outcomes,
                run_s=run_s,
                sample=sample and done.sample,
                content_type=done.content_type,
                out_of_memory=done.shortage.fewest,
            )
        )
        if self._runs_short(done.shortage) and not self._drained:
            self.drain("its memory does not come back")
        if needs_seal and self.memory.found_full():
            self.send(self.session.ask_again(now))

    def _care(self, now: float) -> None:
        """Once a second: memory that is not needed goes back to the system."""
        self._care_at = now + TRIM_EVERY_S
        self.memory.tick()
        self._heap.tick(now, self._ran_at)

    def _runs_short(self, shortage: Shortage) -> bool:
        """Whether memory that ran out is gone for good."""
        if shortage.worked:
            self._short_in_a_row = 0
        self._short_in_a_row += shortage.alone
        most = _SHORT_DESPITE_EXAMPLE if self.has_example else _SHORT
        return shortage.is_broken or self._short_in_a_row >= most

    def is_suspicious(self) -> bool:
        """Whether so much has failed that this process may be broken for good."""
        doubts = _DOUBTS if self.has_example else _DOUBTS_WITHOUT_EXAMPLE
        return self.useless_in_a_row >= doubts and not self._drained

    def conclude(self, *, works: bool) -> None:
        """What came of a suspicion: one that is broken leaves, and its supervisor replaces it."""
        self.useless_in_a_row = 0
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
