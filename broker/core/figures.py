"""What is counted of a version where it is compared with another: faults, and how long it takes."""

from typing import NamedTuple

from msgspec import field

from broker.core.item import ASKED
from broker.core.sketch import Sketch
from broker.core.tally import Tally
from broker.wire.errors import ErrorCode

FAULTS = frozenset({
    ErrorCode.WORKER_ERROR, ErrorCode.WORKER_CRASHED, ErrorCode.WORKER_LOST,
    ErrorCode.DEADLINE_EXCEEDED,
})  # fmt: skip
"""What may be the version's fault: not the client's, and nothing that keeps a request from it."""

MOST_FRESH = 256
"""So many requests, and batches, are timed between two looks; the others are only counted."""

REMEMBERED = 20_000
"""Timed requests after which each of them counts half."""

REMEMBERED_RUNS = 2_000
"""The same of batches."""

LEAST_RUNS = 100
LEAST_SHARE = 1 / 20
"""From so many batches of a size, and so large a part of all, it is known how long they take."""


class Run(NamedTuple):
    """A batch that was run whole and at once: in which stage of the chain, how many, how long."""

    stage: int
    size: int
    run_s: float


class Moment(NamedTuple):
    """What a version did since it was looked at last. `crashes` are some of the faults."""

    requests: int
    faults: int
    runs: list[Run]
    crashes: int = 0


class Runs:
    """How long batches took of late, by stage and by size: 1, 2, 3 to 4, 5 to 8, …"""

    __slots__ = ("_count", "by_size")

    def __init__(self) -> None:
        self._count = 0
        self.by_size: dict[tuple[int, int], Sketch] = {}

    def add(self, run: Run) -> None:
        key = run.stage, _bucket(run.size)
        sketch = self.by_size.get(key)
        if sketch is None:
            sketch = self.by_size[key] = Sketch()
        sketch.add(run.run_s)
        self._count += 1
        if self._count >= REMEMBERED_RUNS:
            self._count = 0
            for each in list(self.by_size):
                self.by_size[each].fade()
                self._count += self.by_size[each].count
                if not self.by_size[each].count:
                    del self.by_size[each]

    def comparable(self, key: tuple[int, int]) -> tuple[int, int] | None:
        """What batches of another version may be compared with: those of this stage and size, else
        larger ones, which take longer, if anything.
        """
        enough = max(LEAST_RUNS, int(LEAST_SHARE * self._count))
        known = [
            other
            for other, sketch in self.by_size.items()
            if other[0] == key[0] and other[1] >= key[1] and sketch.count >= enough
        ]
        return min(known, default=None)


def key_of(run: Run) -> tuple[int, int]:
    """Its stage and size, as `Runs` has them."""
    return run.stage, _bucket(run.size)


def _bucket(size: int) -> int:
    return (size - 1).bit_length()


class Figures(Tally):
    """The same as a tally, and more. Requests that ask for a version by name are not judged, since
    they may be others than those that get one by chance.
    """

    judged: int = 0
    """Requests that got a result, or a fault."""
    faults: int = 0
    crashes: int = 0
    """Of these, how many killed one worker after the other."""
    rejected: int = 0
    """That the plug-in rejected."""
    fresh: list[list[float]] = field(default_factory=list)
    """The spans of some requests that got a result, since the last look."""
    fresh_runs: list[Run] = field(default_factory=list)
    """The same of batches."""
    latency_s: Sketch = field(default_factory=lambda: Sketch(fades_at=REMEMBERED))
    """Of late: what requests spent in the stages that have versions, in queues and batches."""
    runs: Runs = field(default_factory=Runs)
    """Of late: how long batches took."""
    seen: tuple[int, int, int] = (0, 0, 0)
    """How many were judged, were faults, and crashes, at the last look."""

    def count(self, spans: list[float], code: int, key: int) -> None:
        """As a tally does."""
        if not code:
            self.count_result(spans, key)
            return
        Tally.count(self, spans, code, key)
        if code == ErrorCode.REJECTED:
            self.rejected += 1
        elif code in FAULTS and key != ASKED:
            self.judged += 1
            self.faults += 1
            self.crashes += code == ErrorCode.WORKER_CRASHED

    def count_result(self, spans: list[float], key: int) -> None:
        """As a tally does."""
        Tally.count_result(self, spans, key)
        if key != ASKED:
            self.judged += 1
            if len(self.fresh) < MOST_FRESH:
                self.fresh.append(spans)

    def time(self, stage: int, size: int, run_s: float) -> None:
        """A batch was run whole and at once."""
        if len(self.fresh_runs) < MOST_FRESH:
            self.fresh_runs.append(Run(stage, size, run_s))

    def peek(self) -> Moment:
        """What is new since `keep`."""
        judged, faults, crashes = self.seen
        return Moment(
            self.judged - judged, self.faults - faults, self.fresh_runs, self.crashes - crashes
        )

    def keep(self, places: list[int]) -> None:
        """What `peek` has given is known from now on. `places`: of the stages that have versions,
        in the chain.
        """
        self.seen = (self.judged, self.faults, self.crashes)
        for run in self.fresh_runs:
            self.runs.add(run)
        for spans in self.fresh:
            self.latency_s.add(_latency_s(spans, places))
        self.fresh_runs = []
        self.fresh = []


def _latency_s(spans: list[float], places: list[int]) -> float:
    """A stage that ran an item twice leaves more spans than there are stages: then all count."""
    if not places or len(spans) == 2 * len(places) or 2 * places[-1] >= len(spans):
        return sum(spans)
    return sum(spans[2 * place] + spans[2 * place + 1] for place in places)


def promoted(tally: Tally) -> Figures:
    """A version's figures from now on, where only a tally was kept before."""
    return Figures(*(getattr(tally, name) for name in Tally.__struct_fields__))
