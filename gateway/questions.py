"""Pages that need the broker's word, and who waits for it.

Knows neither sockets nor protocols: whoever asks says how to answer.
"""

from collections.abc import Callable
from typing import TypeAlias

PATIENCE_S = 2.0
"""A broker that is well answers within milliseconds."""

Answered: TypeAlias = Callable[[bytes | None], None]
"""Called once: with the broker's status as JSON, or with None where it does not come."""


class Questions:
    """Those that wait. Whatever report comes next is an answer to all of them."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, Answered]] = []

    def add(self, answered: Answered, now: float) -> bool:
        """True where the broker is to be asked: another question may be on its way already."""
        self._waiting.append((now + PATIENCE_S, answered))
        return len(self._waiting) == 1

    def report(self, status: bytes) -> None:
        """The broker has said how it stands."""
        waiting, self._waiting = self._waiting, []
        for _, answered in waiting:
            answered(status)

    def tick(self, now: float) -> None:
        """Those that have waited for too long get no answer."""
        late = [answered for due, answered in self._waiting if due <= now]
        self._waiting = [each for each in self._waiting if each[0] > now]
        for answered in late:
            answered(None)
