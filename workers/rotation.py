"""Whose turn it is to be recycled: one post of a supervisor at a time, without a gap. Pure.

A worker has served its time when it has run so many batches or lived so long: then its successor is
started beside it, and when that one is ready the old one drains. Where it takes too much memory
there may be no room for two: it drains first, and is replaced then. A successor that does not get
ready costs nothing but another try, later each time; the old one goes on serving.

Usage: `begin` gives a turn, which lasts until `done` or `failed`.
"""

from collections.abc import Iterable

from msgspec import Struct

RETRY_S = 60.0
MAX_RETRY_S = 3600.0


class Turn(Struct, frozen=True):
    """One post's worker is to be recycled."""

    index: int
    reason: str
    drains_first: bool = False


class Rotation:
    """What a supervisor knows about turns."""

    def __init__(self, max_age_s: float | None) -> None:
        """`max_age_s` is how long a worker may be ready; None is for ever."""
        self.turn: Turn | None = None
        """The one that is under way."""
        self._max_age_s = max_age_s
        self._failures: dict[int, int] = {}  # by post, since the last that was recycled
        self._not_before: dict[int, float] = {}

    def too_old(self, index: int, ready_s: float) -> Turn | None:
        """The turn that a worker should have which has been ready for so long, if any."""
        if self._max_age_s is None or ready_s < self._max_age_s:
            return None
        return Turn(index, f"it is older than --max-age = {self._max_age_s:g} s")

    def begin(self, wanted: Iterable[Turn], now: float) -> Turn | None:
        """The one of these that begins now, if any may."""
        if self.turn is None:
            due = (turn for turn in wanted if now >= self._not_before.get(turn.index, now))
            self.turn = next(due, None)
            return self.turn
        return None

    def done(self, now: float) -> None:
        """The turn is over: the post has a new worker, which is ready."""
        assert self.turn is not None
        turn, self.turn = self.turn, None
        self._failures.pop(turn.index, None)
        if turn.drains_first:  # it leaves a gap, and a limit may be too low for any worker
            self._not_before[turn.index] = now + RETRY_S

    def failed(self, now: float) -> float:
        """No successor got ready. Returns after how long there will be another try."""
        assert self.turn is not None
        index, self.turn = self.turn.index, None
        failures = self._failures.get(index, 0)
        self._failures[index] = failures + 1
        retry_s: float = min(RETRY_S * 2.0 ** min(failures, 16), MAX_RETRY_S)
        self._not_before[index] = now + retry_s
        return retry_s
