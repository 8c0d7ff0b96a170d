"""How numbers are distributed, in little room: quantiles to 2 % of their value.

Counts in buckets that grow by a constant factor, as in DDSketch (Masson, Rim and Lee, *DDSketch: A
Fast and Fully-Mergeable Quantile Sketch with Relative-Error Guarantees*, VLDB 2019); numbers below
zero have buckets of their own.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil, copysign, exp, log

RELATIVE_ERROR = 0.02

_GROWTH = log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
_LEAST, _MOST = 1e-9, 1e12
"""What is nearer to zero counts as zero, and what is farther as the last of these: so there are
1,210 buckets at most on each side."""


class Sketch:
    """The distribution of numbers that were added, of late: whenever there are `fades_at` of them
    each counts half from then on. 0: none is ever forgotten.
    """

    __slots__ = ("_above", "_below", "_fades_at", "_zeros", "count")

    def __init__(self, *, fades_at: int = 0) -> None:
        self.count = 0
        self._fades_at = fades_at
        self._zeros = 0
        self._above: dict[int, int] = {}
        self._below: dict[int, int] = {}

    def add(self, value: float, weight: int = 1) -> None:
        """A number that is one, and finite; `weight` of them."""
        self.count += weight
        size = abs(value)
        if size < _LEAST:
            self._zeros += weight
        else:
            buckets = self._above if value > 0 else self._below
            bucket = ceil(log(min(size, _MOST)) / _GROWTH)
            buckets[bucket] = buckets.get(bucket, 0) + weight
        if 0 < self._fades_at <= self.count:
            self.fade()

    def merge(self, other: "Sketch") -> None:
        """All that was added to the other one."""
        self.count += other.count
        self._zeros += other._zeros
        for mine, others in ((self._above, other._above), (self._below, other._below)):
            for bucket, count in others.items():
                mine[bucket] = mine.get(bucket, 0) + count

    def quantile(self, share: float) -> float:
        """The number that this share of all does not exceed; 0.0 where there are none."""
        return self.quantiles((share,))[0]

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """The same for several."""
        ends: list[int] = []
        values: list[float] = []
        seen = 0
        for value, count in self._ascending():
            seen += count
            ends.append(seen)
            values.append(value)
        if not seen:
            return [0.0] * len(shares)
        return [values[bisect_right(ends, share * (seen - 1))] for share in shares]

    def _ascending(self) -> list[tuple[float, int]]:
        below = [(_middle(each, -1.0), self._below[each]) for each in sorted(self._below)[::-1]]
        above = [(_middle(each, 1.0), self._above[each]) for each in sorted(self._above)]
        return [*below, (0.0, self._zeros), *above]

    def fade(self) -> None:
        """From now on all that were added count half."""
        self._above = {each: count >> 1 for each, count in self._above.items() if count > 1}
        self._below = {each: count >> 1 for each, count in self._below.items() if count > 1}
        self._zeros >>= 1
        self.count = self._zeros + sum(self._above.values()) + sum(self._below.values())


def _middle(bucket: int, sign: float) -> float:
    """The number that is off by as little as can be for all in a bucket."""
    return copysign(2 * exp(bucket * _GROWTH) / (1 + exp(_GROWTH)), sign)
