"""Counts of times, to three significant digits: small however many there are, and exact to add up.

The idea is Gil Tene's HdrHistogram: buckets as wide as a thousandth of what they hold. Percentiles
are read off the counts, and those of several processes or seconds simply added.
"""

from collections.abc import Iterable
from itertools import accumulate
from math import ceil

from msgspec import Struct

FINE_US = 10_000
"""Below it a bucket is one microsecond wide."""


def bucket(seconds: float) -> int:
    """The microseconds that stand for this time."""
    us = int(seconds * 1e6 + 0.5)
    if us < FINE_US:
        return max(us, 0)
    width = 1
    while us >= FINE_US * width:
        width *= 10
    return us - us % width


class Histogram(Struct):
    """`counts`: how many there were, by their microseconds."""

    counts: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """One more."""
        key = bucket(seconds)
        self.counts[key] = self.counts.get(key, 0) + 1

    def merge(self, other: "Histogram") -> None:
        """All of another one."""
        counts = self.counts
        for key, count in other.counts.items():
            counts[key] = counts.get(key, 0) + count

    def __len__(self) -> int:
        return sum(self.counts.values())

    def percentiles_ms(self, percents: Iterable[float]) -> list[float | None]:
        """For each, the least that so many percent do not exceed; None where there is nothing.

        `percents` in rising order.
        """
        keys = sorted(self.counts)
        below = list(accumulate(self.counts[key] for key in keys))
        total = below[-1] if below else 0
        found: list[float | None] = []
        at = 0
        for percent in percents:
            if not total:
                found.append(None)
                continue
            # Less a hair, since 99.9 % of 1,000 is a little more than 999 to a computer.
            wanted = max(ceil(total * percent / 100.0 - 1e-9), 1)
            while below[at] < wanted:
                at += 1
            found.append(keys[at] / 1e3)
        return found

    def percentile_ms(self, percent: float) -> float | None:
        """The same for one."""
        return self.percentiles_ms([percent])[0]

    def mean_ms(self) -> float | None:
        """None where there is nothing."""
        total = len(self)
        return sum(key * n for key, n in self.counts.items()) / total / 1e3 if total else None
