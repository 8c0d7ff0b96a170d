"""How numbers were distributed once, as something later ones are held against.

Workers read it from a file, brokers make it of the first numbers they are told; both mean the same.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum, inf, isfinite, nextafter, sqrt

from broker.wire.messages import Reference

PARTS = 10
"""Into so many parts of equal size a reference is divided, as is usual for the population stability
index; fewer where many numbers are the same."""

MOST_LIMITS = 100

LARGEST = 1e100
"""What is larger is no number to observe: its square would have no place in a float."""


def reference_of(name: str, values: Iterable[float]) -> Reference:
    """The reference that these are; what is too large, or no number, is left out. Raises ValueError
    where nothing remains.
    """
    known = sorted(value for value in values if abs(value) <= LARGEST)
    if not known:
        raise ValueError(f"{name}: there are no numbers to make a reference of")
    count = len(known)
    mean = fsum(known) / count
    deviation = sqrt(fsum((value - mean) ** 2 for value in known) / count)
    limits = _limits([known[at * count // PARTS] for at in range(1, PARTS)])
    bins = [0] * (len(limits) + 1)
    for value in known:
        bins[bisect_left(limits, value)] += 1
    return Reference(name, count, mean, deviation, limits, [each / count for each in bins])


def _limits(quantiles: Sequence[float]) -> list[float]:
    """A number that stands for many gets a part of its own."""
    limits = set(quantiles)
    for value, times in Counter(quantiles).items():
        if times > 1:
            limits.add(nextafter(value, -inf))
    return sorted(limits)


def trouble_of(reference: Reference) -> str:
    """What is wrong with one that somebody else has made; "" where nothing is."""
    numbers = [reference.mean, reference.deviation, *reference.limits, *reference.shares]
    if not all(isfinite(number) for number in numbers):
        return "has numbers that are none"
    if reference.count < 1 or reference.deviation < 0:
        return "has a count below 1, or a deviation below 0"
    limits = reference.limits
    if not 1 <= len(limits) <= MOST_LIMITS or any(a >= b for a, b in pairwise(limits)):
        return f"needs 1 to {MOST_LIMITS} limits, each above the one before"
    shares = reference.shares
    if len(shares) != len(limits) + 1 or min(shares) < 0 or abs(fsum(shares) - 1) > 1e-6:
        return "needs one share more than limits, none below 0, and 1 in all"
    return ""
