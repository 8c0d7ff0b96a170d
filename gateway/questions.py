"""Pages that need the broker's word, and who waits for it.

Knows neither sockets nor protocols: whoever asks says how to answer.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from broker.wire.messages import PROTOCOL_VERSION, Ask, Report

PATIENCE_S = 2.0
"""A broker that is well answers within milliseconds."""

STATUS_ID = 1
"""Of the question how it stands, which is the same for all who ask it."""

Answered: TypeAlias = Callable[[Report | None], None]
"""Called once: with the broker's answer, or with None where it does not come."""


class _Waiting(NamedTuple):
    due: float
    epoch: int
    answered: Answered


class Questions:
    """Those that wait, by the id of their question. `epoch` is the life of the broker asked."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[_Waiting]] = {}
        self._last_id = STATUS_ID

    def status(self, answered: Answered, now: float, epoch: int) -> Ask | None:
        """What is to be sent; None where the question is on its way already."""
        others = self._waiting.setdefault(STATUS_ID, [])
        others.append(_Waiting(now + PATIENCE_S, epoch, answered))
        return Ask(PROTOCOL_VERSION, "status", id=STATUS_ID) if len(others) == 1 else None

    def put(self, what: str, body: bytes, answered: Answered, *, due: float, epoch: int) -> Ask:
        """The same for any other, which is waited for until `due`."""
        self._last_id += 1
        self._waiting[self._last_id] = [_Waiting(due, epoch, answered)]
        return Ask(PROTOCOL_VERSION, what, body, self._last_id)

    def report(self, report: Report) -> None:
        """The broker has answered; an older one, which gives no ids, knows of status alone."""
        for each in self._waiting.pop(report.id or STATUS_ID, ()):
            each.answered(report)

    def tick(self, now: float, epoch: int) -> None:
        """Those that have waited for too long, or asked a broker that is gone, get no answer.

        `epoch` is 0 while there is none.
        """
        late: list[_Waiting] = []
        for id, waiting in list(self._waiting.items()):
            kept: list[_Waiting] = []
            for each in waiting:
                (kept if each.due > now and each.epoch == epoch else late).append(each)
            if kept:
                self._waiting[id] = kept
            else:
                del self._waiting[id]
        for each in late:
            each.answered(None)
