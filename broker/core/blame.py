"""Whether a request is to blame for the workers that died under it, or chance. Pure.

Workers also die of what no request has done: an operator, a scheduler of containers, a broken host.
A request that ran on three of those is innocent, however often it happens to one. So the deaths of
the stage tell how often workers die there, and a request is guilty only where it would have to be
struck by rare chance each time.
"""

from collections import deque
from collections.abc import Sequence
from math import exp, inf, prod

LOOK_BACK_S = 60.0
"""So long does the death of a worker tell how likely the next one is."""

EVER_DEATHS = 0.05
"""What is added to the deaths that were seen: some workers die even where none has lately."""

LEAST_EXPOSURE_S = 0.02
"""A death is noticed a little later than it happens."""

UNLIKELY = 0.01
"""A request is guilty when the chance of each of its deaths was below this, in geometric mean."""

NO_SIGN = inf
"""The exposure of a loss that no request can bring about: a supervisor or a whole host is gone."""
CERTAIN = 0.0
"""And of one that nothing else does: a call of forward that took too long."""


class Deaths:
    """When workers of one stage were lost lately."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def note(self, now: float) -> None:
        """One more worker is lost."""
        self._times.append(now)

    def explain(self, count: int) -> None:
        """So many of the last ones had a cause: they say nothing about chance."""
        for _ in range(min(count, len(self._times))):
            self._times.pop()

    def lately(self, now: float) -> int:
        """How many there were in the last `LOOK_BACK_S`."""
        times = self._times
        while times and times[0] < now - LOOK_BACK_S:
            times.popleft()
        return len(times)


def is_guilty(exposures_s: Sequence[float], *, others: int, workers: int) -> bool:
    """Whether a request has killed all the workers that died under it.

    `exposures_s`: for each of these deaths, how long the request had been running then. `others`:
    deaths of the stage lately that it had no part in, among so many `workers` at a time.
    """
    rate = (others + EVER_DEATHS) / (LOOK_BACK_S * max(workers, 1))
    chance = prod(1.0 - exp(-rate * max(each, LEAST_EXPOSURE_S)) for each in exposures_s)
    return chance < UNLIKELY ** len(exposures_s)
