"""What was of late: how long requests took, how full batches were, how much came and went.

Fed once a batch, whatever is in it, and folded once a second; a request by itself pays nothing. The
last minutes are kept second by second, and the distributions of the last minute as sketches.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from broker.core.sketch import Sketch
from broker.wire.errors import ERRORS, ErrorCode

STEP_S = 1.0
"""A point of the history is as long."""

POINTS = 300
"""The history has so many."""

MOST_SAMPLES = 256
"""Of one step: when there are more, every other one is dropped, and so on."""

SLICE_STEPS = 10
SLICES = 6
"""Distributions are of the last minute: of so many slices of so many steps."""

QUANTILES = (0.5, 0.95, 0.99)


class Sample(NamedTuple):
    """Of `weight` batches or requests that went alike."""

    weight: int
    values: tuple[float, ...]


class Samples:
    """An even choice of what came since it was taken last, however much that was."""

    __slots__ = ("_kept", "_skip", "_stride")

    def __init__(self) -> None:
        self._kept: list[Sample] = []
        self._stride = 1
        self._skip = 0

    def add(self, weight: int, *values: float) -> None:
        """One more. (It is called for each batch.)"""
        if self._skip:
            self._skip -= 1
            return
        self._skip = self._stride - 1
        self._kept.append(Sample(weight, values))
        if len(self._kept) >= MOST_SAMPLES:
            self._kept = self._kept[::2]
            self._stride *= 2

    def take(self) -> list[Sample]:
        """What was kept, which is forgotten here."""
        kept, self._kept = self._kept, []
        self._stride = 1
        self._skip = 0
        return kept


class Spread:
    """How numbers were distributed in the last minute."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: deque[Sketch] = deque([Sketch()], maxlen=SLICES)

    def add(self, value: float, weight: int) -> None:
        self._slices[-1].add(value, weight)

    def turn(self) -> None:
        """A new slice begins, and the oldest is forgotten."""
        self._slices.append(Sketch())

    def quantiles(self) -> list[float] | None:
        """As QUANTILES asks; None where there was nothing."""
        whole = Sketch()
        for each in self._slices:
            whole.merge(each)
        return whole.quantiles(QUANTILES) if whole.count else None


class StageRecent:
    """Of one stage."""

    __slots__ = ("_samples", "_sizes", "done", "in_per_s", "out_per_s", "run_s", "sizes", "wait_s")

    def __init__(self) -> None:
        self.sizes: Counter[int] = Counter()
        """Batches by their size, since the broker began."""
        self._sizes: deque[Counter[int]] = deque([Counter()], maxlen=SLICES)  # as it was then
        self._samples = Samples()
        self.wait_s = Spread()
        self.run_s = Spread()
        self.done = 0
        self.in_per_s = 0.0
        self.out_per_s = 0.0

    def batch(self, size: int, wait_s: float, run_s: float) -> None:
        """A batch was run: for so long, after one of its items had waited so long."""
        self.sizes[size] += 1
        self._samples.add(size, wait_s, run_s)

    def fold(self, *, turns: bool) -> None:
        """The end of a step; `turns`: of a slice as well."""
        if turns:
            self._sizes.append(Counter(self.sizes))
            self.wait_s.turn()
            self.run_s.turn()
        for weight, (wait_s, run_s) in self._samples.take():
            self.wait_s.add(wait_s, weight)
            self.run_s.add(run_s, weight)

    def late_sizes(self) -> dict[int, int]:
        """Batches of the last minute by their size."""
        return dict(sorted((self.sizes - self._sizes[0]).items()))


class Point(Struct, frozen=True, array_like=True):
    """One second of a pipeline. `number` counts these; times are None where nothing was answered.

    `queued` has each stage of the chain.
    """

    number: int
    came: float  # a second, of those that were taken in
    answered: float
    failed: float
    refused: float
    items: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    queued: list[int]


class Totals(NamedTuple):
    """What a pipeline has counted since the broker began."""

    answered: int = 0
    failed: int = 0
    withdrawn: int = 0
    refused: int = 0
    items: int = 0

    @property
    def came(self) -> int:
        return self.answered + self.failed + self.withdrawn + self.items


class Recent:
    """Of one pipeline."""

    __slots__ = (
        "_before", "_number", "_samples", "_steps", "errors", "latency_s", "points", "stages",
    )  # fmt: skip

    def __init__(self, stages: int) -> None:
        self.stages = [StageRecent() for _ in range(stages)]
        self.points: deque[Point] = deque(maxlen=POINTS)
        self.latency_s = Spread()
        self.errors: Counter[int] = Counter()
        """Requests that were taken in and failed, by error code."""
        self._samples = Samples()
        self._before = Totals()
        self._number = 0
        self._steps = 0

    def failed(self, code: int) -> None:
        """A request that was taken in has failed; the code may be a worker's own."""
        self.errors[code if code in ERRORS else ErrorCode.WORKER_ERROR] += 1

    def answered(self, size: int, latency_s: float) -> None:
        """The last batch of so many requests was run, one of which took so long in all."""
        self._samples.add(size, latency_s)

    def fold(self, totals: Totals, queued: list[int], done: Sequence[int], step_s: float) -> None:
        """A step of so many seconds is over."""
        self._steps += 1
        turns = self._steps % SLICE_STEPS == 0
        if turns:
            self.latency_s.turn()
        samples = self._samples.take()
        for weight, (latency_s,) in samples:
            self.latency_s.add(latency_s, weight)
        p50_ms, p95_ms, p99_ms = _quantiles_ms(samples)
        before, self._before = self._before, totals
        came = _rate(totals.came - before.came, step_s)
        point = Point(
            number=self._number,
            came=came,
            answered=_rate(totals.answered - before.answered, step_s),
            failed=_rate(totals.failed - before.failed, step_s),
            refused=_rate(totals.refused - before.refused, step_s),
            items=totals.items,
            p50_ms=p50_ms,
            p95_ms=p95_ms,
            p99_ms=p99_ms,
            queued=queued,
        )
        self._number += 1
        self.points.append(point)
        for stage, passed in zip(self.stages, done, strict=True):
            stage.fold(turns=turns)
            stage.in_per_s = came
            stage.out_per_s = came = _rate(passed - stage.done, step_s)
            stage.done = passed


def _rate(count: int, step_s: float) -> float:
    """A second. What was counted of a version that is forgotten is taken out of the totals."""
    return round(max(count, 0) / step_s, 2)


def _quantiles_ms(samples: list[Sample]) -> list[float | None]:
    if not samples:
        return [None] * len(QUANTILES)
    samples.sort(key=lambda sample: sample.values)
    total = sum(sample.weight for sample in samples)
    found: list[float | None] = []
    seen = 0
    for weight, (value,) in samples:
        seen += weight
        while len(found) < len(QUANTILES) and seen >= QUANTILES[len(found)] * total:
            found.append(round(value * 1e3, 3))
    return found
