"""When the requests of an open load are due. Pure: they are planned before, whatever happens.

Poisson arrivals are those of many users who know nothing of each other: gaps that chance alone
draws. Several generators share a load without an agreement, since Poisson processes add up to one.
"""

import random
from collections.abc import Iterator
from enum import StrEnum


class Arrivals(StrEnum):
    """How the gaps between requests are drawn."""

    POISSON = "poisson"
    CONSTANT = "constant"


def moments(
    arrivals: Arrivals, *, rate_per_s: float, seed: int, part: int = 0, parts: int = 1
) -> Iterator[float]:
    """Seconds after the start, in order and without end, for one of several parts of a load."""
    if arrivals is Arrivals.CONSTANT:
        number = part
        while True:
            yield number / rate_per_s
            number += parts
    chance = random.Random(f"{seed}/{part}" if parts > 1 else seed)
    rate_of_part = rate_per_s / parts
    moment = 0.0
    while True:
        moment += chance.expovariate(rate_of_part)
        yield moment


def until(end_s: float, planned: Iterator[float]) -> Iterator[float]:
    """Those before this moment."""
    for moment in planned:
        if moment >= end_s:
            return
        yield moment
