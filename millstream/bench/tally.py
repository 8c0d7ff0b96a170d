"""What became of the requests of one run, in counts that stay small and add up. Pure."""

import re

from msgspec import Struct, field

from millstream.bench.answers import Answer
from millstream.bench.histogram import Histogram
from millstream.bench.open_loop import ABANDONED, BROKEN

SLICES = 120
"""Into so many equal spans the time of a run is cut for what is shown over time."""

MOST_CODES = 50
"""Distinct error codes that are told apart; a service may put anything into its answers."""
OTHER_CODES = "others"

_CODE = re.compile(rb'"code"\s*:\s*"([A-Za-z0-9_.-]{1,64})"')


class Slice(Struct):
    """Of the requests that were due in one span of time."""

    sent: int = 0
    ok: int = 0
    in_time: int = 0
    latency: Histogram = field(default_factory=Histogram)


class Tally(Struct):
    """`sent` is the sum of `ok`, `errors`, `timeouts` and `broken`. `latency` is of those answered
    2xx, `error_latency` of other answers; both count from when a request was due (see the loops).
    `lag`: how late the generator itself was. `in_time`: of `ok`, those within the SLO.
    """

    sent: int = 0
    ok: int = 0
    in_time: int = 0
    errors: int = 0
    timeouts: int = 0
    broken: int = 0
    statuses: dict[int, int] = {}
    codes: dict[str, int] = {}
    latency: Histogram = field(default_factory=Histogram)
    error_latency: Histogram = field(default_factory=Histogram)
    lag: Histogram = field(default_factory=Histogram)
    slices: dict[int, Slice] = {}
    waited: int = 0
    connections: int = 0
    closed_by_server: int = 0
    processor_percent: list[float] = []
    """Of a core, by each process of the generator."""
    unreadable: str = ""
    took_s: float = 0.0
    """From the begin of what counts to its last answer."""

    def merge(self, other: "Tally") -> None:
        """All that another process of the same run has counted."""
        for name in ("sent", "ok", "in_time", "errors", "timeouts", "broken"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("waited", "connections", "closed_by_server"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for status, count in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + count
        for code, count in other.codes.items():
            self.codes[code] = self.codes.get(code, 0) + count
        self.latency.merge(other.latency)
        self.error_latency.merge(other.error_latency)
        self.lag.merge(other.lag)
        for place, theirs in other.slices.items():
            ours = self.slices.setdefault(place, Slice())
            ours.sent += theirs.sent
            ours.ok += theirs.ok
            ours.in_time += theirs.in_time
            ours.latency.merge(theirs.latency)
        self.processor_percent += other.processor_percent
        self.unreadable = self.unreadable or other.unreadable
        self.took_s = max(self.took_s, other.took_s)


class Counter:
    """Counts what became of those requests that were due from `begin_s` to `end_s`: a `Sink`."""

    def __init__(self, *, begin_s: float, end_s: float, slo_s: float) -> None:
        self.tally = Tally()
        self.begun = 0
        """All that were sent, those outside of what counts among them."""
        self.ended = 0
        self._begin_s = begin_s
        self._end_s = end_s
        self._slo_s = slo_s
        self._slice_s = (end_s - begin_s) / SLICES

    def begin(self, number: int, planned_s: float, now_s: float) -> None:
        """See `Sink`."""
        self.begun += 1
        if self._begin_s <= planned_s < self._end_s:
            self.tally.lag.add(now_s - planned_s)

    def end(
        self, number: int, planned_s: float, status: int, now_s: float, answer: Answer | None
    ) -> None:
        """See `Sink`."""
        self.ended += 1
        if not self._begin_s <= planned_s < self._end_s:
            return
        tally = self.tally
        place = int((planned_s - self._begin_s) / self._slice_s)
        slice_ = tally.slices.get(place)
        if slice_ is None:
            slice_ = tally.slices[place] = Slice()
        tally.sent += 1
        slice_.sent += 1
        tally.took_s = max(tally.took_s, now_s - self._begin_s)
        took_s = now_s - planned_s
        if status == BROKEN:
            tally.broken += 1
        elif status == ABANDONED:
            tally.timeouts += 1
        else:
            tally.statuses[status] = tally.statuses.get(status, 0) + 1
            if 200 <= status < 300:
                tally.ok += 1
                slice_.ok += 1
                tally.latency.add(took_s)
                slice_.latency.add(took_s)
                if took_s <= self._slo_s:
                    tally.in_time += 1
                    slice_.in_time += 1
            else:
                tally.errors += 1
                tally.error_latency.add(took_s)
                self._count_code(answer)

    def _count_code(self, answer: Answer | None) -> None:
        match = _CODE.search(answer.body) if answer is not None else None
        if match is None:
            return
        codes = self.tally.codes
        code = match[1].decode()
        if code not in codes and len(codes) >= MOST_CODES:
            code = OTHER_CODES
        codes[code] = codes.get(code, 0) + 1
