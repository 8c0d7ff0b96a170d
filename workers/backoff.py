"""When a post whose worker has died may have another: later from death to death. Pure.

A death that a request is to blame for does not count: the broker says so a moment later, since it
alone knows what the worker was running.
"""

from collections import deque

FIRST_DELAY_S = 0.1
MAX_DELAY_S = 30.0
HEALTHY_S = 5.0
"""A worker that was ready for so long has shown that it can live: the next death is a new story."""

MAX_EXCUSED = 10
EXCUSED_WITHIN_S = 60.0
"""A model that dies of more requests in so short a time dies of everything, and must not spin."""

_REMEMBERED = 16
"""Deaths that may still be excused; the broker needs less than a second for it."""


class Backoff:
    """One post's deaths, and when it may start a process again."""

    __slots__ = ("_count", "_deaths", "_excused", "start_at")

    def __init__(self) -> None:
        self.start_at = 0.0
        """When it may, if it has none."""
        self._count = 0  # of deaths in a row
        self._deaths: deque[tuple[bytes, float]] = deque(maxlen=_REMEMBERED)
        self._excused: deque[float] = deque(maxlen=MAX_EXCUSED)

    def died(self, worker: bytes, now: float, *, ready_s: float) -> None:
        """Its worker has died, after it had been ready for so long: 0 for never."""
        if ready_s >= HEALTHY_S:
            self._count = 0
        self._delay(now)
        self._deaths.append((worker, now))

    def no_start(self, now: float) -> None:
        """There is not even a process."""
        self._delay(now)

    def excuse(self, worker: bytes, now: float) -> bool:
        """This worker's death was a request's fault, and does not count, unless too many were.

        Returns whether it is known here.
        """
        for death in self._deaths:
            if death[0] == worker:
                self._forgive(death, now)
                return True
        return False

    def _delay(self, now: float) -> None:
        self.start_at = now + min(FIRST_DELAY_S * 2.0 ** min(self._count, 16), MAX_DELAY_S)
        self._count += 1

    def _forgive(self, death: tuple[bytes, float], now: float) -> None:
        is_last = death is self._deaths[-1]
        self._deaths.remove(death)
        excused = self._excused
        if len(excused) == MAX_EXCUSED and now - excused[0] < EXCUSED_WITHIN_S:
            return
        excused.append(now)
        self._count -= self._count > 0
        if is_last:
            self.start_at = min(self.start_at, death[1] + FIRST_DELAY_S)
