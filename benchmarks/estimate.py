"""What a handful of ratios come to, and how sure that is. Pure.

After Hodges and Lehmann: the median of the means of all pairs is hardly less exact than the mean
where noise is benign, and as little impressed by outliers as a median; the interval is that of
Wilcoxon's signed ranks.
"""

import statistics
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

NORMAL_95 = 1.96


class Estimate(NamedTuple):
    """A figure, and between what it lies with 95 % confidence."""

    value: float
    low: float
    high: float

    def inverse(self) -> "Estimate":
        """Of the ratio the other way round."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low)


def estimate(samples: Sequence[float]) -> Estimate:
    """Of samples whose noise is the same to both sides. At least one; with fewer than six the
    interval is all that was seen.
    """
    count = len(samples)
    means = sorted(
        (samples[one] + samples[other]) / 2 for one in range(count) for other in range(one, count)
    )
    spread = NORMAL_95 * sqrt(count * (count + 1) * (2 * count + 1) / 24)
    skipped = max(round(len(means) / 2 - spread), 0)
    return Estimate(statistics.median(means), means[skipped], means[-1 - skipped])
