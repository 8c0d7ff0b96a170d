"""How long batches are under way beside their run, as it has been of late: what the processor is
busy with, and what the messages have to wait for, is in it.

Mean and mean deviation, each fading, as TCP tells when an answer is overdue (Jacobson, *Congestion
Avoidance and Control*, 1988; RFC 6298).
"""

USUAL_FADES = 1 / 16
DEVIATION_FADES = 1 / 8

MOST_S = 0.02
"""Of one batch: a process that stood still for longer says nothing of the next."""


class Way:
    """From when a worker comes to a batch until the broker has its results, less the run."""

    __slots__ = ("_deviation_s", "_usual_s")

    def __init__(self) -> None:
        self._usual_s = 0.0
        self._deviation_s = 0.0

    def observe(self, seconds: float) -> None:
        """One batch took so much beside its run."""
        off_s = min(max(seconds, 0.0), MOST_S) - self._usual_s
        self._usual_s += off_s * USUAL_FADES
        self._deviation_s += (abs(off_s) - self._deviation_s) * DEVIATION_FADES

    @property
    def long_s(self) -> float:
        """What few batches exceed; 0 before there were any."""
        return self._usual_s + 2.0 * self._deviation_s
