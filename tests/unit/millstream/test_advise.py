"""`millstream advise`: the numbers it names meet the goal, and fewer do not; what it cannot say."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from millstream.advise.learnt import ENOUGH_BATCHES, NotLearnt, learnt, parse
from millstream.advise.model import StageModel, fitting_caps, unloaded_s
from millstream.advise.search import Advice, Goal, Unreachable, advise, is_met, played
from millstream.advise.words import tables
from millstream.cli.tables import plain


def stage(name: str = "infer", a_ms: float = 10.0, c_ms: float = 1.0, **keys: Any) -> StageModel:
    return StageModel(
        name=name,
        a_s=a_ms / 1e3,
        c_s=c_ms / 1e3,
        **{"spread": 0.05, "cap": 16} | keys,
    )


def goal(rate: float = 200.0, slo_ms: float = 100.0, **keys: Any) -> Goal:
    return Goal(
        **{
            "rate_per_s": rate,
            "slo_s": slo_ms / 1e3,
            "share": 0.99,
            "timeout_s": 10.0,
            "most_requests": 2000,
        }
        | keys
    )


def without_one(stages: list[StageModel], name: str) -> list[StageModel]:
    return [replace(s, workers=s.workers - 1) if s.name == name else s for s in stages]


# ------------------------------------------------------------------ bounds


def test_a_queue_is_stable_only_below_what_full_batches_pass() -> None:
    one = stage()  # 16 in 26 ms and a little
    assert one.worker_per_s == pytest.approx(608, rel=0.01)
    assert [one.least_workers(rate) for rate in (1.0, 600.0, 620.0, 1300.0)] == [1, 1, 2, 3]
    assert stage(concurrency=2).worker_per_s == 2 * one.worker_per_s


def test_batches_are_no_larger_than_the_goal_bears() -> None:
    assert fitting_caps([stage()], 1.0) == [stage()]
    (fitted,) = fitting_caps([stage(c_ms=10.0)], 0.15)
    assert 2 * fitted.run_s(fitted.cap) + unloaded_s([fitted]) - fitted.run_s(1) <= 0.15
    assert 2 * fitted.run_s(fitted.cap + 1) > 0.14
    (fitted,) = fitting_caps([stage(c_ms=10.0)], 0.001)
    assert fitted.cap == 1


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("stages", "wanted"),
    [
        ([stage()], goal(900.0)),
        ([stage(c_ms=0.0, a_ms=20.0, cap=1)], goal(130.0)),
        ([stage("pre", 1.0, 0.5, cap=8), stage("infer", 20.0, 2.0), stage("post", 0.5, 0.1)],
         goal(700.0, 150.0)),
    ],
)  # fmt: skip
def test_what_is_advised_meets_the_goal_and_one_fewer_does_not(
    stages: list[StageModel], wanted: Goal
) -> None:
    advice = advise(stages, wanted)
    assert is_met(played(advice.stages, wanted), wanted)
    busiest = max(range(len(stages)), key=lambda place: advice.outcome.busy[place])
    bottleneck = advice.stages[busiest]
    assert bottleneck.workers > 1
    fewer = without_one(advice.stages, bottleneck.name)
    assert not is_met(played(fewer, wanted), wanted)


def test_the_same_question_has_the_same_answer() -> None:
    assert advise([stage()], goal(100.0)) == advise([stage()], goal(100.0))


def test_a_tighter_goal_needs_more() -> None:
    loose = advise([stage(cap=4)], goal(500.0, 200.0)).stages[0].workers
    tight = advise([stage(cap=4)], goal(500.0, 35.0)).stages[0].workers
    assert tight > loose


def test_what_no_number_of_workers_can_do_is_told() -> None:
    with pytest.raises(Unreachable, match=r"one request alone takes 1[12]\.\d ms.*infer takes 11"):
        advise([stage()], goal(10.0, 5.0))
    with pytest.raises(Unreachable, match="further workers do not change that"):
        advise([stage(spread=0.5, c_ms=0.0, cap=1)], goal(10.0, 12.0))


# ------------------------------------------------------------------ what was learnt


def report(**changes: Any) -> dict[str, Any]:
    infer = {
        "ready_workers": 2,
        "max_batch_size": 16,
        "estimates_ms": {
            "": {"a": 1.0, "c": 1.0, "samples": 5, "spread": 0.0},
            "2": {"a": 10.0, "c": 1.0, "samples": 400, "spread": 0.04},
        },
        "batch_sizes": {"1": 3, "12": 40},
    } | changes
    shares = [{"version": "1", "share": 5.0}, {"version": "2", "share": 95.0}]
    return {
        "pipelines": {
            "p": {
                "chain": ["infer"],
                "stages": {"infer": infer},
                "timeout_s": 3.0,
                "traffic": {"versions": shares},
                "history": [[1, 100.0, 90, 0, 20.0, 5], [2, 80.0, 90, 0, 0.0, 5]],
            }
        },
        "workers": [{"stage": "infer", "version": "2", "credit": 2}],
    }


def test_what_the_broker_has_learnt() -> None:
    known = learnt(parse(msgspec.json.encode(report())), "p")
    (about,) = known.stages
    assert about == stage(spread=0.04, workers=2)
    assert (known.timeout_s, known.rate_per_s, known.version) == (3.0, 100.0, "2")
    assert (known.samples, known.notes) == ([400], [])


@pytest.mark.parametrize(
    ("change", "pipeline", "words"),
    [
        ({}, "q", "there is no pipeline 'q'; there is p"),
        ({"max_batch_size": 0}, "p", "stage infer of p has no worker"),
        ({"estimates_ms": {}}, "p", "stage infer take is not learnt yet: 0 of them were run"),
        (
            {"estimates_ms": {"2": {"a": 1.0, "c": 1.0, "samples": ENOUGH_BATCHES - 1}}},
            "p",
            "not learnt yet for version 2: 19 of them",
        ),
    ],
)
def test_what_it_has_not_learnt_is_told(change: Any, pipeline: str, words: str) -> None:
    with pytest.raises(NotLearnt, match=words.replace("(", r"\(")):
        learnt(parse(msgspec.json.encode(report(**change))), pipeline)


def test_that_a_size_was_never_seen_is_told() -> None:
    known = learnt(parse(msgspec.json.encode(report(batch_sizes={"3": 9}))), "p")
    assert "batches of at most 3" in known.notes[0]


def test_what_is_said() -> None:
    known = learnt(parse(msgspec.json.encode(report())), "p")
    said: Callable[[Advice, Goal], str] = lambda advice, wanted: plain(  # noqa: E731
        tables("p", known, advice, wanted)
    )
    wanted = goal(1500.0)
    text = said(advise(known.stages, wanted), wanted)
    assert "p, version 2: for 1500 requests a second, 0.99 of them within 100 ms" in text
    assert "do: start 1 more worker of infer" in text
    wanted = goal(100.0, 40.0)
    text = said(advise(known.stages, wanted), wanted)
    assert "could: do without 1 worker of infer" in text
    assert "do: set max_batch_size = " in text
