"""Two versions side by side, as they are told of."""

from typing import Any

import msgspec
import pytest

from broker.core import traffic as t
from broker.core.rollout import FORGET_S
from broker.wire.errors import ErrorCode
from tests.unit.broker.core.test_guard import SPLIT, Load, raises, rejects
from tests.unit.broker.core.test_rollout import leave


def compared(load: Load, **body: Any) -> dict[str, Any]:
    load.driver.ask("compare", **body)
    report = load.driver.reports[b"cli"].pop()
    assert not report.code, report.message
    document: dict[str, Any] = msgspec.json.decode(report.body)
    return document


@pytest.fixture
def load() -> Load:
    return Load(t.assign(SPLIT, {"2": 1, "3": 1}), None)


def test_before_anything_was_asked(load: Load) -> None:
    document = compared(load)
    nothing = {
        "requests": 0, "errors": 0, "error_rate": None, "rejected": 0,
        "p50_ms": None, "p95_ms": None, "p99_ms": None,
    }  # fmt: skip
    assert document == {
        "pipeline": "p",
        "a": {"version": "2", **nothing},
        "b": {"version": "3", **nothing},
        "agreement": None,
        "drift": None,
        "verdict": "versions 2 and 3 do not answer requests side by side",
    }


def test_the_figures_of_both(load: Load) -> None:
    load.run_s["3"] = 0.008
    load.run(40)
    load.forwards["2"] = rejects
    load.run(20)
    load.driver.run(0.2)
    document = compared(load, a="2", b="3")
    counts = [(document[side]["requests"], document[side]["rejected"]) for side in "ab"]
    assert counts[0][1] == 10
    assert counts[1][1] == 0
    # The first was answered when there was nobody to compare with.
    assert counts[0][0] + counts[1][0] == 49
    assert document["a"]["p95_ms"] == pytest.approx(4, rel=0.03)
    assert document["b"]["p95_ms"] == pytest.approx(8, rel=0.03)
    assert document["verdict"].startswith("too few requests to tell: ")


def test_what_can_be_said(load: Load) -> None:
    load.run(400)
    load.driver.run(0.2)
    said = compared(load)["verdict"]
    assert said.startswith("nothing shows that version 3 does worse than 2, after ")
    load.forwards["3"] = raises
    load.run(100)
    load.driver.run(0.2)
    document = compared(load, a="3", b="2")
    assert document["verdict"].startswith("version 3 does worse than 2: errors: ")
    assert document["a"]["error_rate"] == pytest.approx(0.2, abs=0.02)


def test_after_it_was_rolled_back() -> None:
    load = Load()
    load.forwards["3"] = raises
    load.run_until_rolled_back(4000)
    said = compared(load, a="2", b="3")["verdict"]
    assert said == f"version 3 was rolled back: {load.traffic.rejected['3']}"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"a": "2", "b": "9"}, ErrorCode.UNKNOWN_VERSION),
        ({"a": "2", "b": "2"}, ErrorCode.BAD_REQUEST),
        ({"c": "2"}, ErrorCode.BAD_REQUEST),
        ({"a": 2}, ErrorCode.BAD_REQUEST),
    ],
)
def test_what_cannot_be_compared(load: Load, body: dict[str, Any], code: ErrorCode) -> None:
    load.driver.ask("compare", **body)
    assert load.driver.reports[b"cli"].pop().code == code


def test_the_figures_of_a_version_that_is_gone_are_forgotten(load: Load) -> None:
    load.run(20)
    load.driver.ask("traffic", weights={"2": 1})
    leave(load.driver, load.workers["3"])
    load.driver.run(FORGET_S + 10)
    assert list(load.driver.ledger.pipelines["p"].tallies) == ["2"]
    (figures,) = load.driver.scheduler.snapshot(load.driver.now).pipelines["p"].figures
    assert figures.version == "2"
