"""The slowest requests of late. A request that is not one of them pays a compare, and no more.

The last minutes are several spans, each of which has its own slowest, so that what was slow two
minutes ago does not hide what is slow now.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappush, heapreplace, nlargest

from msgspec import Struct

SPAN_S = 20.0
SPANS = 6
PER_SPAN = 8
SHOWN = 12


class SlowRequest(Struct, frozen=True):
    """One that has ended. `spans` is queue and run of each of `stages` that ran, in seconds; `at`
    is when it ended, in seconds since 1970.
    """

    duration_s: float
    at: float
    request_id: str
    pipeline: str
    version: str
    status: int
    code: str
    stages: list[str]
    spans: list[float]


class Slowest:
    """See the module."""

    __slots__ = ("_begun", "_count", "_spans", "least_s")

    def __init__(self, now: float) -> None:
        self._begun = now
        self._count = 0
        self._spans: deque[list[tuple[float, int, SlowRequest]]] = deque([[]], maxlen=SPANS)
        self.least_s = 0.0
        """What took less is of no interest."""

    def add(self, request: SlowRequest) -> None:
        """A request took `least_s` or longer."""
        self._count += 1  # so that requests themselves are never compared
        entry = (request.duration_s, self._count, request)
        span = self._spans[-1]
        if len(span) < PER_SPAN:
            heappush(span, entry)
        elif entry > span[0]:
            heapreplace(span, entry)
        if len(span) == PER_SPAN:
            self.least_s = span[0][0]

    def tick(self, now: float) -> None:
        """A few times a second."""
        if now - self._begun >= SPAN_S:
            self._begun = now
            self._spans.append([])
            self.least_s = 0.0

    def shown(self) -> Sequence[SlowRequest]:
        """The slowest of the last two minutes, the slowest first."""
        entries = (entry for span in self._spans for entry in span)
        return [request for _, _, request in nlargest(SHOWN, entries)]
