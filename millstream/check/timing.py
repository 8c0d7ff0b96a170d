"""How long batches take, by their size: measured, and t(b) = a + c·b fitted to it."""

import time
from collections.abc import Callable, Sequence
from statistics import fmean, median

import numpy as np
from msgspec import Struct

from millstream.check.report import Timing

LEAST_CALLS = 3
MOST_CALLS = 50
QUICK_S = 0.5
"""So long they may take, beyond their share, to be `LEAST_CALLS`."""
MEAN_OVER_MEDIAN = 1.183
"""Of the deviations of what is normally distributed."""


class Measured(Struct):
    """All calls of one stage, by size."""

    timings: list[Timing]
    calls_s: dict[int, list[float]]


class Fit(Struct, frozen=True):
    """Seconds that a batch of b takes: a + c·b. `spread` is the mean deviation, as a share: that of
    a normal distribution with the same median deviation, which no interruption changes.
    """

    a_s: float
    c_s: float
    spread: float


def sizes_to(most: int) -> list[int]:
    """1, 2, 4, …, and the largest."""
    sizes = [1]
    while sizes[-1] * 2 < most:
        sizes.append(sizes[-1] * 2)
    return sizes if most == 1 else [*sizes, most]


def measure(call: Callable[[int], bool], sizes: Sequence[int], budget_s: float) -> Measured:
    """`call` runs a batch of so many, and says whether its time counts.

    The sizes share the budget, evenly as far as they can; each is run once before. Where twice the
    budget is used up the larger sizes are left out, but for the second: it tells a from c.
    """
    began = time.monotonic()
    timings, calls_s = [], {}
    for place, size in enumerate(sizes):
        spent_s = time.monotonic() - began
        if spent_s > 2.0 * budget_s and place > 1:
            break
        share_s = max(budget_s - spent_s, 0.0) / (len(sizes) - place)
        taken, cpu = _calls(call, size, share_s)
        if taken:
            calls_s[size] = taken
            timings.append(Timing(size, median(taken), median(cpu), len(taken)))
    return Measured(timings, calls_s)


def _calls(
    call: Callable[[int], bool], size: int, share_s: float
) -> tuple[list[float], list[float]]:
    """Those of one size: until its share is used up, but a few, where they are quick."""
    if not call(size):  # the first one pays for what is made only once
        return [], []
    taken: list[float] = []
    cpu: list[float] = []
    spent_s = 0.0
    while len(taken) < MOST_CALLS and (
        not taken or spent_s < share_s or (len(taken) < LEAST_CALLS and spent_s < QUICK_S)
    ):
        cpu_began, began = time.process_time(), time.perf_counter()
        if not call(size):
            return [], []
        taken.append(time.perf_counter() - began)
        cpu.append(time.process_time() - cpu_began)
        spent_s += taken[-1]
    return taken, cpu


def fit(calls_s: dict[int, list[float]]) -> Fit:
    """Of the medians, each as precise as its size says; neither part is less than nothing."""
    sizes = np.array(list(calls_s), float)
    medians = np.array([median(taken) for taken in calls_s.values()])
    if len(sizes) == 1:
        a_s, c_s = 0.0, float(medians[0] / sizes[0])
    else:
        weights = 1.0 / medians
        columns = np.stack([weights, sizes * weights], axis=1)
        a_s, c_s = map(float, np.linalg.lstsq(columns, medians * weights, rcond=None)[0])
        if c_s < 0.0:
            a_s, c_s = float(fmean(medians)), 0.0
        elif a_s < 0.0:
            a_s, c_s = 0.0, float(fmean(medians / sizes))
    deviations = [
        abs(each / middle - 1.0)
        for middle, taken in zip(medians, calls_s.values(), strict=True)
        for each in taken
    ]
    return Fit(a_s, c_s, min(MEAN_OVER_MEDIAN * float(median(deviations)), 1.0))
