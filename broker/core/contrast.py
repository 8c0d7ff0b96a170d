"""What two versions did at the same time, as the tests want it: errors, and how long batches took.

A version that is tried out has smaller batches, and a shorter queue, than the one with most of the
traffic. So not the times of requests are compared but those of batches, each with the other's
batches of its size, or of larger ones where there are none: slower than that is slower indeed.
"""

from collections.abc import Sequence
from math import exp, log

from broker.core.config import GuardConfig
from broker.core.figures import Moment, Run, Runs, key_of
from broker.core.sequential import OddsTest
from broker.core.sketch import RELATIVE_ERROR, Sketch

QUANTILES = (0.95, 0.8, 0.5)
"""Of the stable version's times. What is allowed is said of the first, and must be exceeded there;
a version that is slower throughout shows sooner at the others."""

WINDOW = 8
"""Figures in words are of at least so many times `min_requests`, where there were that many."""


class Counts:
    """Bad ones of some outcomes, of two versions, of late."""

    __slots__ = ("_before", "_now", "_span")

    def __init__(self, config: GuardConfig) -> None:
        self._span = WINDOW * config.min_requests
        self._before = self._now = (0, 0, 0, 0)

    def add(self, canary: int, canary_bad: int, stable: int, stable_bad: int) -> None:
        if self._now[0] >= self._span:
            self._before, self._now = self._now, (0, 0, 0, 0)
        a, b, c, d = self._now
        self._now = (a + canary, b + canary_bad, c + stable, d + stable_bad)

    def total(self) -> tuple[int, int, int, int]:
        """Of the canary how many, and how many bad; the same of the stable one."""
        a, b, c, d = (before + now for before, now in zip(self._before, self._now, strict=True))
        return a, b, c, d


class Block:
    """Outcomes that wait until both versions have some; by one limit or several."""

    __slots__ = ("bad", "canary", "stable")

    def __init__(self, limits: int) -> None:
        self.canary = self.stable = 0
        self.bad = [[0, 0] for _ in range(limits)]

    def give(self, tests: list[OddsTest]) -> None:
        """Hand them to the tests, one for each limit, once there are some of both."""
        if self.canary and self.stable:
            for test, (canary_bad, stable_bad) in zip(tests, self.bad, strict=True):
                test.add(self.canary, canary_bad, self.stable, stable_bad)
            self.canary = self.stable = 0
            self.bad = [[0, 0] for _ in self.bad]


class Faults:
    """Which of two versions fails more often, at the same time."""

    __slots__ = ("_block", "shown", "tests")

    def __init__(self, config: GuardConfig) -> None:
        self._block = Block(1)
        self.tests = [OddsTest()]
        self.shown = Counts(config)

    def add(self, canary: Moment, stable: Moment) -> None:
        self.shown.add(canary.requests, canary.faults, stable.requests, stable.faults)
        self._block.canary += canary.requests
        self._block.stable += stable.requests
        self._block.bad[0][0] += canary.faults
        self._block.bad[0][1] += stable.faults
        self._block.give(self.tests)


class Times:
    """Which of two versions takes longer for batches as large, or larger, at the same time."""

    __slots__ = ("_blocks", "_config", "limits_ms", "shown", "tests")

    def __init__(self, config: GuardConfig) -> None:
        self._config = config
        self._blocks: dict[tuple[int, int], Block] = {}
        self.tests = [OddsTest() for _ in QUANTILES]
        self.shown = Counts(config)
        self.limits_ms = (0.0, 0.0)  # what is slow for the canary, and for the stable one

    def add(self, canary: list[Run], stable: list[Run], known: Runs) -> None:
        """`known`: of the stable one, without these."""
        by_key: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
        others = {own: known.comparable(own) for own in {key_of(run) for run in canary}}
        for run in canary:
            if (key := others[key_of(run)]) is not None:
                by_key.setdefault(key, ([], []))[0].append(run.run_s)
        for run in stable:
            key = key_of(run)
            if key in by_key or key in self._blocks:
                by_key.setdefault(key, ([], []))[1].append(run.run_s)
        for key, (canary_s, stable_s) in by_key.items():
            if key in known.by_size:
                self._add(key, canary_s, stable_s, known.by_size[key])

    def _add(
        self, key: tuple[int, int], canary_s: list[float], stable_s: list[float], known: Sketch
    ) -> None:
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = Block(len(QUANTILES))
        block.canary += len(canary_s)
        block.stable += len(stable_s)
        config = self._config
        for place, quantile_s in enumerate(known.quantiles(QUANTILES)):
            limit_s = quantile_s * (1 + 2 * RELATIVE_ERROR)  # no less than the true one
            own_s = limit_s * config.latency_ratio + config.latency_margin_ms * 1e-3
            canary_slow = sum(each > own_s for each in canary_s)
            stable_slow = sum(each > limit_s for each in stable_s)
            block.bad[place][0] += canary_slow
            block.bad[place][1] += stable_slow
            if not place:
                self.shown.add(len(canary_s), canary_slow, len(stable_s), stable_slow)
                self.limits_ms = (own_s * 1e3, limit_s * 1e3)
        block.give(self.tests)


def is_shown(tests: Sequence[OddsTest], alpha: float) -> bool:
    """Whether the canary is worse, but for this chance of an error. The mean of what several bets
    gain is what a bet on all of them would.
    """
    logs = [test.evidence.log() for test in tests]
    largest = max(logs)
    mean = sum(exp(each - largest) for each in logs) / len(logs)
    return largest + log(mean) >= -log(alpha)
