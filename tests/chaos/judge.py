"""Whether all held: what clients saw, against what was done to their gateways. Pure.

A gateway that is killed, stopped or told to end may leave its own clients without an answer; they
see it, ask another gateway, and are counted apart. Nothing else excuses anything.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct, field

from tests.chaos.jobs import Sort
from tests.chaos.records import Attempt, End, Gap, Pause, Records, Trouble

SHORTLY_S = 0.25
"""An answer may come so long after its deadline."""
AFTERMATH_S = 0.5
"""So long after a gateway's trouble its clients may still feel it."""
WELL = 0.99
"""The share of usual requests that are answered with a result, or more, where there was capacity:
from the request to its answer a broker that knew its gateway and was not about to end, and in each
stage a worker that was ready. Unless another is asked for."""
SHOWN = 5

USUAL = {Sort.SMALL, Sort.ARRAY, Sort.UPLOAD, Sort.CONSTANT, Sort.SLOW}
REFUSALS = {"queue_full", "overloaded", "not_ready", "worker_lost", "deadline_exceeded"}
"""Why a request may have no result though nothing is wrong with it: there was no capacity."""
CONVICTED = {"worker_crashed", "worker_error"}
"""What those are answered that do harm."""


class Verdict(Struct):
    """How many of what, and all that does not hold."""

    answers: dict[str, Counter[str]] = field(default_factory=dict)
    """By sort of request: how many with which status and code. Of each request the last one."""
    apart: Counter[str] = field(default_factory=Counter)
    """What clients of a gateway in trouble saw before they asked another."""
    counts: Counter[str] = field(default_factory=Counter)
    """How often each law was broken."""
    findings: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    """The usual requests that had no result."""
    enough: float = WELL
    """What `well` must be at least."""
    capacity: Counter[bool] = field(default_factory=Counter)
    """Of the usual requests for which there was capacity: how many had a result, and had none."""
    gaps: Counter[bool] = field(default_factory=Counter)
    """The same of those during which it lacked for a while."""
    latest_s: float = -inf
    """How long after its deadline the latest answer came; less than 0: before it."""
    longest_pause_s: float = 0.0
    """Of the clients themselves."""

    @property
    def well(self) -> float:
        """The share of usual requests that had a result, where there was capacity."""
        return self.capacity[True] / (self.capacity.total() or 1)

    def find(self, law: str, what: str) -> None:
        """Something does not hold; of each law the first few are shown."""
        self.counts[law] += 1
        if self.counts[law] <= SHOWN:
            self.findings.append(f"{law}: {what}")


def judge(
    records: Records,
    troubles: Iterable[Trouble],
    gaps: Sequence[Gap],
    *,
    began_s: float,
    calm_s: float,
    enough: float = WELL,
) -> Verdict:
    """The verdict. From `calm_s` on, nothing happens any more that a client might notice; what is
    found is told with the seconds since `began_s`. `enough`: see `WELL`.
    """
    verdict = Verdict(enough=enough)
    known = _Troubles(troubles, records.pauses)
    answered: set[str] = set()
    last: dict[int, Attempt] = {}
    for attempt in records.attempts:
        is_excused = known.touch(attempt.port, attempt.sent_s, attempt.ended_s)
        what = _describe(attempt, began_s)
        _weigh(verdict, attempt, what, answered, is_excused=is_excused)
        if attempt.end is End.ANSWERED:
            last[attempt.job.number] = attempt
            answered.add(attempt.job.id)
            if not is_excused:
                _time(verdict, attempt, what, records.pauses)
        if attempt.sent_s >= calm_s and attempt.status != 200:
            verdict.find("not well in the calm", what)
    for attempt in last.values():
        _count(verdict, attempt, _describe(attempt, began_s), gaps)
    for job in records.unanswered:
        verdict.find("never answered", job.id)
    for stray in records.strays:
        verdict.find("duplicate", f"{stray.what} at {stray.at_s - began_s:.2f} s")
    for end in records.ends:
        if not known.touch(end.port, end.at_s, end.at_s):
            verdict.find("connection ended", f"between requests at {end.at_s - began_s:.2f} s")
    missing = records.sent - len(last) - len(records.unanswered)
    if missing:
        verdict.find("lost", f"{missing} of {records.sent} requests")
    verdict.longest_pause_s = max((p.until_s - p.from_s for p in records.pauses), default=0.0)
    if verdict.well < enough:
        verdict.find("too few results", f"{verdict.well:.2%} of the usual requests")
    return verdict


class _Troubles:
    """When the clients of each gateway may have felt one: they see it later if they stood still."""

    def __init__(self, troubles: Iterable[Trouble], pauses: Sequence[Pause]) -> None:
        self._by_port: dict[int, list[tuple[float, float]]] = {}
        for trouble in troubles:
            felt_s = trouble.until_s + AFTERMATH_S
            for pause in pauses:
                if pause.from_s < felt_s:
                    felt_s = max(felt_s, pause.until_s + AFTERMATH_S)
            self._by_port.setdefault(trouble.port, []).append((trouble.from_s, felt_s))

    def touch(self, port: int, from_s: float, until_s: float) -> bool:
        """Whether a client of this gateway may have felt one of them in that time."""
        felt = self._by_port.get(port, ())
        return any(begin <= until_s and from_s <= end for begin, end in felt)


def _weigh(
    verdict: Verdict, attempt: Attempt, what: str, answered: set[str], *, is_excused: bool
) -> None:
    if attempt.end is not End.ANSWERED:
        if is_excused:
            verdict.apart[attempt.end] += 1
        else:
            verdict.find("lost" if attempt.end is End.CUT else "hung", what)
    elif attempt.fault:
        is_second = any(attempt.fault == f"it is the answer to {id!r}" for id in answered)
        verdict.find("duplicate" if is_second else "wrong", what)
    elif attempt.code == "draining":
        if is_excused:
            verdict.apart["draining"] += 1
        else:
            verdict.find("turned away", what)


def _time(verdict: Verdict, attempt: Attempt, what: str, pauses: Sequence[Pause]) -> None:
    late_s = attempt.ended_s - attempt.due_s
    if late_s > 0.0:
        late_s -= sum(
            max(0.0, min(pause.until_s, attempt.ended_s) - max(pause.from_s, attempt.due_s))
            for pause in pauses
        )
    verdict.latest_s = max(verdict.latest_s, late_s)
    if late_s > SHORTLY_S:
        verdict.find("late", what)


def _count(verdict: Verdict, attempt: Attempt, what: str, gaps: Sequence[Gap]) -> None:
    """Of each request the last answer."""
    sort = attempt.job.sort
    kind = f"{attempt.status} {attempt.code}".rstrip()
    verdict.answers.setdefault("usual" if sort in USUAL else sort, Counter())[kind] += 1
    if sort in USUAL:
        has_gap = any(
            gap.port == attempt.port
            and gap.from_s < attempt.ended_s
            and attempt.sent_s < gap.until_s
            for gap in gaps
        )
        (verdict.gaps if has_gap else verdict.capacity)[attempt.status == 200] += 1
        if attempt.status != 200:
            verdict.without.append(f"{what}{' (no capacity)' if has_gap else ''}")
    if attempt.fault or attempt.status == 200 or attempt.code in REFUSALS:
        return
    is_convicted = attempt.code in CONVICTED
    if sort is not Sort.POISON and is_convicted:
        verdict.find("blamed though innocent", what)
    elif not is_convicted:
        verdict.find("odd answer", what)


def _describe(attempt: Attempt, began_s: float) -> str:
    job = attempt.job
    took_s = attempt.ended_s - attempt.sent_s
    said = f"{attempt.status} {attempt.code} {attempt.fault}" if attempt.status else ""
    return (
        f"{job.id} ({job.sort}, deadline {job.deadline_s:g} s) at {attempt.sent_s - began_s:.2f} s "
        f"by port {attempt.port}: {attempt.end} after {took_s:.3f} s {said}"
    ).rstrip()
