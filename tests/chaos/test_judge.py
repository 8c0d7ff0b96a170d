"""The verdict: every law can be broken, and is then found; a gateway in trouble excuses its own."""

import json
from collections import Counter
from random import Random

import pytest

from tests.chaos import jobs
from tests.chaos.jobs import Job, Sort
from tests.chaos.judge import WELL, Verdict, judge
from tests.chaos.records import Attempt, End, Gap, Incident, Pause, Records, Trouble

PORT, OTHER = 8001, 8002
JOB = jobs.constant(1, Random(1))
DEADLINE_S = JOB.deadline_s
CALM_S = 1000.0


def attempt(
    job: Job = JOB, *, sent_s: float = 10.0, took_s: float = 0.1, **keys: object
) -> Attempt:
    fields = {"end": End.ANSWERED, "status": 200, "port": PORT, **keys}
    if fields["end"] is not End.ANSWERED:
        fields["status"] = 0
    return Attempt(job=job, sent_s=sent_s, ended_s=sent_s + took_s, **fields)  # type: ignore[arg-type]


def verdict(
    *attempts: Attempt, troubles: list[Trouble] | None = None, **records: object
) -> Verdict:
    records.setdefault("sent", len({each.job.number for each in attempts}))
    gaps = records.pop("gaps", [])
    enough = records.pop("enough", WELL)
    seen = Records(attempts=list(attempts), **records)  # type: ignore[arg-type]
    return judge(
        seen,
        troubles or [],
        gaps,  # type: ignore[arg-type]
        began_s=0.0,
        calm_s=CALM_S,
        enough=enough,  # type: ignore[arg-type]
    )


def test_all_is_well() -> None:
    said = verdict(
        attempt(), attempt(jobs.poison(2, "die", "first"), status=500, code="worker_crashed")
    )
    assert said.findings == []
    assert said.answers == {
        "usual": Counter({"200": 1}),
        "poison": Counter({"500 worker_crashed": 1}),
    }
    assert said.well == 1.0


@pytest.mark.parametrize(
    ("law", "bad"),
    [
        ("lost", attempt(end=End.CUT)),
        ("hung", attempt(end=End.SILENT, took_s=DEADLINE_S + 2.0)),
        ("late", attempt(took_s=DEADLINE_S + 0.3)),
        ("wrong", attempt(fault="it is no JSON")),
        ("turned away", attempt(status=503, code="draining")),
        ("blamed though innocent", attempt(status=500, code="worker_crashed")),
        ("odd answer", attempt(status=400, code="bad_body")),
        (
            "not well in the calm",
            attempt(sent_s=CALM_S + 1.0, status=504, code="deadline_exceeded"),
        ),
        ("too few results", attempt(status=504, code="deadline_exceeded")),
    ],
)
def test_each_law_can_be_broken(law: str, bad: Attempt) -> None:
    again = [] if bad.end is End.ANSWERED else [attempt(sent_s=20.0)]
    said = verdict(bad, *again)
    assert said.counts[law] == 1
    assert any(
        finding.startswith(f"{law}: job-1 ") or law == "too few results"
        for finding in said.findings
    )


def test_a_second_answer_is_a_duplicate() -> None:
    other = jobs.constant(2, Random(2))
    said = verdict(attempt(), attempt(other, fault=other.fault_of(200, "job-1", JOB.body)))
    assert said.counts["duplicate"] == 1
    stray = Incident(PORT, 5.0, "b'HTTP/1.1 200 OK'")
    assert verdict(attempt(), strays=[stray]).counts["duplicate"] == 1


def test_what_is_never_answered_is_found() -> None:
    assert verdict(attempt(end=End.CUT), sent=1).counts["lost"] == 2
    assert verdict(attempt(), sent=2).findings == ["lost: 1 of 2 requests"]
    assert verdict(attempt(), sent=2, unanswered=[JOB]).findings == ["never answered: job-1"]
    end = Incident(PORT, 5.0, "it ended")
    assert verdict(attempt(), ends=[end]).counts["connection ended"] == 1


@pytest.mark.parametrize("end", [End.CUT, End.SILENT])
def test_a_gateway_in_trouble_excuses_its_own(end: End) -> None:
    first = attempt(end=end, took_s=2.0)
    for trouble in (Trouble(PORT, 9.0), Trouble(PORT, 11.0, 11.0), Trouble(PORT, 9.0, 9.8)):
        said = verdict(first, attempt(sent_s=30.0, port=OTHER), troubles=[trouble])
        assert said.findings == []
        assert said.apart[end] == 1
    for trouble in (Trouble(OTHER, 9.0), Trouble(PORT, 13.0), Trouble(PORT, 5.0, 8.0)):
        assert verdict(first, attempt(sent_s=30.0), troubles=[trouble]).findings


def test_clients_that_stood_still_see_the_trouble_later() -> None:
    cut = attempt(end=End.CUT)
    trouble = Trouble(PORT, 5.0, 6.0)
    pauses = [Pause(6.1, 8.0), Pause(8.2, 9.9)]
    again = attempt(sent_s=20.0)
    assert verdict(cut, again, troubles=[trouble], pauses=pauses).findings == []
    assert verdict(cut, again, troubles=[trouble], pauses=pauses[1:]).counts["lost"] == 1


def test_only_what_was_not_our_own_pause_is_late() -> None:
    late = attempt(took_s=DEADLINE_S + 0.5)
    pause = Pause(late.due_s + 0.1, late.ended_s)
    assert verdict(late, pauses=[pause]).findings == []
    assert verdict(late, pauses=[Pause(late.sent_s, late.due_s)]).counts["late"] == 1
    assert verdict(late, troubles=[Trouble(PORT, 5.0)]).findings == []


def test_where_no_capacity_was_no_result_is_wanted() -> None:
    none = attempt(status=504, code="deadline_exceeded")
    well = attempt(jobs.constant(2, Random(2)), sent_s=50.0)
    assert verdict(none, well, gaps=[Gap(PORT, 10.05, 10.06)]).findings == []
    assert verdict(none, well, gaps=[Gap(OTHER, 10.0, 11.0)]).counts["too few results"] == 1
    assert verdict(none, well, gaps=[Gap(PORT, 9.0, 9.9)]).counts["too few results"] == 1
    assert verdict(none, well, enough=0.5).findings == []
    assert verdict(none, well, enough=0.51).counts["too few results"] == 1
    assert verdict(well, gaps=[Gap(PORT, 0.0)]).counts["too few results"] == 1, "it never could"


def test_an_answer_must_be_the_jobs_own() -> None:
    job = jobs.usual(7, Random(1))
    assert job.answer is not None
    right = json.dumps(job.answer).encode()
    assert job.fault_of(200, "job-7", right) == ""
    assert job.fault_of(200, "job-8", right)
    assert job.fault_of(200, "job-7", right.replace(b"7", b"8", 1))
    assert job.fault_of(200, "job-7", b"{")
    by = json.dumps(job.answer | {"by": ["2", "2"]}).encode()
    assert job.fault_of(200, "job-7", by, "2") == ""
    assert job.fault_of(200, "job-7", by, "3"), "it is of two versions"
    assert job.fault_of(200, "job-7", by.replace(b'"2"', b'"2, cold"', 1), "2")
    error = b'{"error":{"code":"overloaded","request_id":"job-7"}}'
    assert job.fault_of(503, "job-7", error) == ""
    assert job.fault_of(503, "job-7", error.replace(b"job-7", b"job-9"))
    assert job.fault_of(503, "job-7", b"[]")
    assert jobs.poison(7, "die", "first").fault_of(200, "job-7", right), "it cannot have a result"


def test_jobs_are_of_all_sorts_and_no_two_are_alike() -> None:
    chance = Random(1)
    made = [jobs.usual(number, chance) for number in range(1, 200)]
    assert {job.sort for job in made} == {Sort.SMALL, Sort.ARRAY, Sort.UPLOAD}
    assert len({job.body for job in made}) == len(made)
    uploads = [len(job.body) for job in made if job.sort is Sort.UPLOAD]
    assert 100_000 <= min(uploads) <= max(uploads) <= 300_000
    assert {job.deadline_s for job in made} == set(jobs.DEADLINES_S)
