"""An open load: moments that chance alone draws, and the counts of what became of the requests.

Pure. Requests never wait for answers, and latency counts from the planned moment, so that neither
a slow server nor a late load generator makes the figures look better than they are.
"""

import bisect
import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from millstream.bench.answers import Answer
from millstream.bench.arrivals import Arrivals
from millstream.bench.arrivals import moments as planned
from millstream.bench.open_loop import ABANDONED, BROKEN

NO_STATUS = 0
OK = 200
# So many deadlines after it was planned, its client hangs up.
PATIENCE = 3
# The later the generator is itself, the more of what it finds is its own doing.
LAG_OF_DEADLINE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Poisson arrivals at `rate_per_s`; answers are wanted within `deadline_s`.

    Those planned within `seconds` after the warm-up count. Load goes on for a deadline after them,
    since the last of them would else find less of it than the others.
    """

    rate_per_s: float
    seconds: float
    deadline_s: float
    seed: int
    warm_up_s: float = 1.0

    @property
    def patience_s(self) -> float:
        """From the planned moment until the client hangs up."""
        return PATIENCE * self.deadline_s

    def moments(self) -> list[float]:
        """When each request is planned, in seconds after the start, in order."""
        end = self.warm_up_s + self.seconds + self.deadline_s
        arrivals = planned(Arrivals.POISSON, rate_per_s=self.rate_per_s, seed=self.seed)
        return list(takewhile(lambda moment: moment < end, arrivals))

    def counted(self, moments: Sequence[float]) -> range:
        """The places of those moments that count."""
        begin = bisect.bisect_left(moments, self.warm_up_s)
        return range(begin, bisect.bisect_left(moments, self.warm_up_s + self.seconds))


class Log:
    """What became of each request, by its place in the plan, and what that took: a `Sink`.

    Times count from the start.
    """

    def __init__(self, count: int) -> None:
        self.statuses = array("h", [NO_STATUS]) * count
        self.begun_s = array("d", [math.nan]) * count
        self.ended_s = array("d", [math.nan]) * count
        self.waited = 0
        self.connections = 0
        self.closed_by_server = 0
        self.processor_percent = 0.0
        self.unreadable = ""

    def begin(self, number: int, planned_s: float, now_s: float) -> None:
        """The generator turns to it: it goes out now, or waits for a connection."""
        self.begun_s[number] = now_s

    def end(
        self, number: int, planned_s: float, status: int, now_s: float, answer: Answer | None = None
    ) -> None:
        """The one end of this request."""
        self.statuses[number] = status
        self.ended_s[number] = now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run found. `sent` is the sum of `in_time`, `late`, `broken` and all of `refused`.

    `late` are answers of 200 after the deadline and those whose client hung up before, `abandoned`;
    `broken` had their connection end; `refused` is keyed by status. Latencies of nothing are None.
    The lag is the generator's own: from the planned moment until it turned to the request, which
    goes out then, but for those that `waited` for the server to take another connection.
    `processor_percent` is what it took of one core. A measurement with a `fault` is none.
    """

    sent: int = 0
    in_time: int = 0
    late: int = 0
    abandoned: int = 0
    broken: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    sent_per_s: float = 0.0
    in_time_per_s: float = 0.0
    success_p50_ms: float | None = None
    success_p99_ms: float | None = None
    refusal_p50_ms: float | None = None
    refusal_p99_ms: float | None = None
    lag_p99_ms: float = 0.0
    lag_max_ms: float = 0.0
    waited: int = 0
    connections: int = 0
    closed_by_server: int = 0
    processor_percent: float = 0.0
    fault: str = ""


def count(plan: Plan, moments: Sequence[float], log: Log) -> Figures:
    """Count what was planned in the time that counts. Every request must have ended."""
    places = plan.counted(moments)
    ends = Counter(log.statuses[place] for place in places)
    refused = {status: ends[status] for status in sorted(ends.keys() - {OK, ABANDONED, BROKEN})}
    took_s = {place: log.ended_s[place] - moments[place] for place in places}
    success_s = sorted(took_s[place] for place in places if log.statuses[place] == OK)
    refusal_s = sorted(took_s[place] for place in places if log.statuses[place] in refused)
    lag_s = sorted(log.begun_s[place] - moments[place] for place in places)
    in_time = bisect.bisect_right(success_s, plan.deadline_s)
    return Figures(
        sent=len(places),
        in_time=in_time,
        late=ends[OK] - in_time + ends[ABANDONED],
        abandoned=ends[ABANDONED],
        broken=ends[BROKEN],
        refused={str(status): times for status, times in refused.items()},
        sent_per_s=len(places) / plan.seconds,
        in_time_per_s=in_time / plan.seconds,
        success_p50_ms=_percentile_ms(success_s, 50),
        success_p99_ms=_percentile_ms(success_s, 99),
        refusal_p50_ms=_percentile_ms(refusal_s, 50),
        refusal_p99_ms=_percentile_ms(refusal_s, 99),
        lag_p99_ms=_percentile_ms(lag_s, 99) or 0.0,
        lag_max_ms=_percentile_ms(lag_s, 100) or 0.0,
        waited=log.waited,
        connections=log.connections,
        closed_by_server=log.closed_by_server,
        processor_percent=log.processor_percent,
        fault=_fault(plan, log, lag_s),
    )


def _percentile_ms(ordered_s: Sequence[float], percent: int) -> float | None:
    """The least that so many percent do not exceed."""
    if not ordered_s:
        return None
    place = max(math.ceil(len(ordered_s) * percent / 100), 1) - 1
    return round(ordered_s[place] * 1e3, 3)


def _fault(plan: Plan, log: Log, lag_s: Sequence[float]) -> str:
    """Why this is no measurement of the server; empty where it is one."""
    lag_ms = _percentile_ms(lag_s, 99)
    if lag_ms is None:
        return "nothing was sent"
    if log.unreadable:
        return log.unreadable
    most_ms = plan.deadline_s * 1e3 * LAG_OF_DEADLINE
    if lag_ms > most_ms:
        return f"the load generator was late itself: {lag_ms:.1f} ms, of {most_ms:.1f} at most"
    return ""
