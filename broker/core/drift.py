"""Whether numbers that a plug-in observes are still distributed as they were.

What came of late is held against a reference: the one that was made with the model, else the first
thousand. Two figures say how far it has moved:

- the population stability index, the sum of (p - q) ln(p / q) over the parts of the reference
  (Siddiqi, *Credit Risk Scorecards*, 2006, whose limits are used here). Without any change about
  (parts - 1)(1/n + 1/m) is expected of n and m numbers (Yurdakul, *Statistical Properties of
  Population Stability Index*, 2018), so nothing is said of few.
- the shift: how many standard deviations of the reference lie between its mean and the new one.
"""

from bisect import bisect_left
from math import isfinite, log, sqrt

from broker.core.sketch import Sketch
from broker.wire.messages import Observed, Reference
from broker.wire.reference import LARGEST, reference_of

FIRST = 1000
"""So many numbers are the reference, where none was made with the model."""

RECENT = 4000
"""When so many came since, each of them counts half."""

ENOUGH = 200
"""Of fewer that came of late, or in the reference, nothing is said."""

LARGEST_SAMPLE = 1000
MOST_AT_ONCE = 10**9
"""What a worker says beyond these is none of ours."""

SLIGHT, LARGE = 0.1, 0.25
"""The index from which on there is a slight change, and a large one."""


class Drift:
    """One name's numbers, of one version."""

    __slots__ = (
        "_bins", "_deviations", "_first", "_recent", "_squares", "_summed", "count", "ignored",
        "is_given", "least", "mean", "most", "reference",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.least = self.most = 0.0
        self.ignored = 0
        self._squares = 0.0
        self.reference: Reference | None = None
        self.is_given = False  # with the model
        self._first: list[float] = []
        self._clear()

    def _clear(self) -> None:
        self._recent = Sketch(fades_at=RECENT)
        self._bins: list[int] = []
        self._deviations = 0.0  # of what came of late, from the mean of the reference
        self._summed = 0.0  # how many these are

    @property
    def deviation(self) -> float:
        """The standard deviation of all."""
        return sqrt(self._squares / self.count) if self.count else 0.0

    def refer_to(self, reference: Reference) -> None:
        """This was made with the model."""
        if self.reference != reference:
            self.reference = reference
            self.is_given = True
            self._first = []
            self._clear()
            self._bins = [0] * len(reference.shares)

    def add(self, observed: Observed) -> None:
        """Some more, from one worker. What cannot be is left out."""
        self.ignored += min(max(observed.ignored, 0), MOST_AT_ONCE)
        figures = (observed.mean, observed.least, observed.most)
        is_sane = all(abs(figure) <= LARGEST for figure in figures)
        if not is_sane or not 0 < observed.count <= MOST_AT_ONCE:
            return
        if not 0 <= observed.squares <= observed.count * (2 * LARGEST) ** 2:
            return
        self._merge(observed)
        for value in observed.sample[:LARGEST_SAMPLE]:
            if abs(value) <= LARGEST:
                self._take(value)

    def _merge(self, observed: Observed) -> None:
        """Means and squares of two sets are those of both (Chan, Golub and LeVeque, 1983)."""
        if not self.count:
            self.least, self.most = observed.least, observed.most
        self.least = min(self.least, observed.least)
        self.most = max(self.most, observed.most)
        both = self.count + observed.count
        away = observed.mean - self.mean
        self.mean += away * (observed.count / both)
        self._squares += observed.squares + away * away * self.count * (observed.count / both)
        self.count = both

    def _take(self, value: float) -> None:
        reference = self.reference
        if reference is None:
            self._first.append(value)
            if len(self._first) >= FIRST:
                self.reference = reference_of("", self._first)
                self._first = []
                self._bins = [0] * len(self.reference.shares)
            return
        self._recent.add(value)
        self._bins[bisect_left(reference.limits, value)] += 1
        self._deviations += value - reference.mean
        self._summed += 1
        if self._summed >= RECENT:
            self._bins = [each >> 1 for each in self._bins]
            self._deviations /= 2
            self._summed /= 2

    @property
    def recent(self) -> int:
        """How many came of late, each as far as it counts still."""
        return sum(self._bins)

    def quantiles(self, shares: tuple[float, ...]) -> list[float] | None:
        """Of what came of late."""
        return self._recent.quantiles(shares) if self._recent.count else None

    def index(self) -> float | None:
        """The population stability index; None while there is too little."""
        if self.reference is None or min(self.recent, self.reference.count) < ENOUGH:
            return None
        shares = self.reference.shares
        seen, made = self.recent + len(shares) / 2, self.reference.count + len(shares) / 2
        index = 0.0
        for count, share in zip(self._bins, shares, strict=True):
            # Half a number more in each part, so that no part is empty.
            p = (count + 0.5) / seen
            q = (share * self.reference.count + 0.5) / made
            index += (p - q) * log(p / q)
        return index

    def shift(self) -> float | None:
        """In standard deviations of the reference; None where it has none, or too little came."""
        reference = self.reference
        if reference is None or self.recent < ENOUGH or reference.deviation <= 0:
            return None
        shift = self._deviations / self._summed / reference.deviation
        return shift if isfinite(shift) else None

    def verdict(self) -> str:
        """In a word."""
        index = self.index()
        if index is None:
            return "too few"
        return "steady" if index < SLIGHT else "slight" if index < LARGE else "large"
