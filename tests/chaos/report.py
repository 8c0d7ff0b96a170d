"""The table at the end of a run. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from tests.chaos.judge import Verdict
from tests.chaos.records import Records
from tests.chaos.schedule import Kind

MEBIBYTE = 1 << 20
LAWS = ("lost", "wrong", "duplicate", "hung", "late")
"""Those that stand in the table though they hold."""


class Outcome(Struct, frozen=True):
    """All that a run has shown."""

    seed: int
    seconds: float
    verdict: Verdict
    records: Records
    done: Counter[Kind]
    left_out: list[Kind]
    before: Mapping[str, int]
    after: Mapping[str, int]
    left: list[str]
    """What the run has left behind."""
    findings: list[str]
    """Of processes and of the host; the verdict has those of the clients."""

    @property
    def all_findings(self) -> list[str]:
        """What does not hold."""
        left = [f"left behind: {each}" for each in self.left]
        return [*self.verdict.findings, *self.findings, *left]


def lines(outcome: Outcome) -> Iterator[str]:
    """The table, and what does not hold below it."""
    verdict, records = outcome.verdict, outcome.records
    yield "faults"
    for kind in Kind:
        count = "left out" if kind in outcome.left_out else str(outcome.done[kind])
        yield _row(kind, count)
    yield "answers"
    for sort, answers in sorted(verdict.answers.items()):
        for answer, times in sorted(answers.items()):
            yield _row(f"{sort}: {answer}", times)
    yield _row("usual with a result", _share(verdict.capacity + verdict.gaps))
    yield _row("... where it lacked capacity for a while", _share(verdict.gaps))
    yield _row(f"... where it did not (at least {verdict.enough:.0%})", _share(verdict.capacity))
    yield "clients"
    yield _row("requests", records.sent)
    for what in sorted(verdict.apart):
        yield _row(f"{what}, by a gateway in trouble: asked another", verdict.apart[what])
    yield _row("went away without waiting", records.vanished)
    for law in (*LAWS, *sorted(verdict.counts.keys() - {*LAWS})):
        yield _row(law, verdict.counts[law])
    yield _row("latest answer, after its deadline", f"{verdict.latest_s:.3f} s")
    yield _row("longest pause of the clients themselves", f"{verdict.longest_pause_s:.3f} s")
    yield "memory of the largest, before and after"
    for sort, bytes in outcome.before.items():
        after = outcome.after.get(sort, 0)
        yield _row(sort, f"{bytes / MEBIBYTE:.1f} MiB, {after / MEBIBYTE:.1f} MiB")
    yield _row("left behind: processes, sockets, shared memory", len(outcome.left))
    findings = outcome.all_findings
    verdict_line = "not all holds" if findings else "all holds"
    yield f"seed {outcome.seed}, {outcome.seconds:g} s: {verdict_line}"
    yield from (f"  {finding}" for finding in findings)


def _share(counts: Counter[bool]) -> str:
    return f"{counts[True] / (counts.total() or 1):.3%} of {counts.total()}"


def _row(what: str, figure: object) -> str:
    return f"  {what:<55} {figure}"
