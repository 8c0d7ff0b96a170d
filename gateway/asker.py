"""The way to the broker for whatever needs its word: questions go out through the table."""

from collections.abc import Callable

from broker.wire.messages import NO_EPOCH, Report
from gateway.pending import PendingTable
from gateway.questions import Answered, Questions
from gateway.request import Request


class BrokerAsker:
    """See the module."""

    def __init__(self, table: PendingTable[Request], wake: Callable[[float], None]) -> None:
        self._table = table
        self._wake = wake
        self._questions = Questions()

    def status(self, answered: Answered, now: float) -> None:
        """Ask the broker how it stands."""
        if not (epoch := self.epoch()):
            answered(None)
        elif (question := self._questions.status(answered, now, epoch)) is not None:
            self._table.ask(question)
            self._wake(float("inf"))

    def ask(self, what: str, body: bytes, answered: Answered, due: float) -> bool:
        """See `admin_call.Asker`."""
        if not (epoch := self.epoch()):
            return False
        self._table.ask(self._questions.put(what, body, answered, due=due, epoch=epoch))
        self._wake(float("inf"))
        return True

    def epoch(self) -> int:
        """The life of the broker that takes requests; 0 where none does."""
        return self._table.epoch if self._table.up else NO_EPOCH

    def report(self, report: Report) -> None:
        """The broker has answered a question."""
        self._questions.report(report)

    def tick(self, now: float) -> None:
        """A few times a second: what is not answered in time will not be."""
        self._questions.tick(now, self.epoch())
