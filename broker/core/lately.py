"""What was of the last seconds: read off counts since the beginning, so that counting is cheap."""

from collections import Counter, deque

from broker.core.blame import LOOK_BACK_S

MARK_EVERY_S = 5.0
LEAST_S = 10.0
"""What is told is of so many seconds, and up to one mark more, where there were so many."""

MOST_LOSSES = 100


class Lately:
    """How the errors of a pipeline's requests, by code, stood some seconds ago."""

    __slots__ = ("_marks",)

    def __init__(self, now: float) -> None:
        self._marks: deque[tuple[float, Counter[int]]] = deque([(now, Counter())])

    def is_due(self, now: float) -> bool:
        """Whether `mark` is to be called."""
        return now - self._marks[-1][0] >= MARK_EVERY_S

    def mark(self, counts: Counter[int], now: float) -> None:
        """They stand so now."""
        marks = self._marks
        marks.append((now, counts))
        while len(marks) > 1 and now - marks[1][0] >= LEAST_S:
            marks.popleft()

    def since(self, counts: Counter[int], now: float) -> tuple[float, dict[int, int]]:
        """How long ago it began, in seconds, and what has come since, as they stand so now."""
        began, before = self._marks[0]
        return now - began, dict(counts - before)


class Losses:
    """The workers of a stage that were lost lately, and why the last of them was."""

    __slots__ = ("_times", "reason")

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=MOST_LOSSES)
        self.reason = ""

    def note(self, reason: str, now: float) -> None:
        """One more is lost."""
        self._times.append(now)
        self.reason = reason

    def lately(self, now: float) -> int:
        """How many there were in the last `LOOK_BACK_S`, as far as they are remembered."""
        return sum(at >= now - LOOK_BACK_S for at in self._times)
