"""What is counted where things happen: plain numbers, of which metrics are made when somebody asks.

One observation is a search in a short tuple and two additions, 0.15 µs.
"""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct

TIMES_S = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
    10.0, 30.0,
)  # fmt: skip
"""Upper limits of the parts of a histogram of times, in seconds."""


class Counts(Struct, frozen=True):
    """A histogram as it was at one moment: how many were at most each limit, and above the last;
    and the sum of all.
    """

    limits: tuple[float, ...]
    counts: list[int]
    total: float


class Histogram:
    """How often values were between limits. An upper limit belongs to its part, as in Prometheus.

    For one thread: another is given what `take` returns.
    """

    __slots__ = ("counts", "limits", "total")

    def __init__(self, limits: Sequence[float] = TIMES_S) -> None:
        """`limits` ascend."""
        self.limits = tuple(limits)
        self.counts = [0] * (len(self.limits) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """One more. NaN would spoil the sum: its caller sees to that."""
        self.counts[bisect_left(self.limits, value)] += 1
        self.total += value

    def take(self) -> Counts:
        """How things stand."""
        return Counts(self.limits, self.counts.copy(), self.total)
