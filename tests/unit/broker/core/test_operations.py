"""What can be asked of a running deployment: bodies that are right, and all that can be wrong."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from broker.core.events import Asked
from broker.wire.errors import ErrorCode
from broker.wire.messages import PROTOCOL_VERSION, Ask, Refused
from tests.unit.broker.core.driver import Driver, pipeline

Make = Callable[..., Driver]


@pytest.fixture
def two(broker: Make) -> Driver:
    driver = broker(digits=pipeline("a"), words=pipeline("a"))
    for version in ("1", "2"):
        driver.worker(b"w" + version.encode(), by=b"s" + version.encode(), version=version)
    return driver


def test_without_changes_it_is_a_question(two: Driver) -> None:
    document = two.traffic("digits")
    assert document == {
        "pipeline": "digits",
        "follows": True,
        "weights": {"2": 100.0},
        "stable": "2",
        "previous": "1",
        "canary": "",
        "shadow": "",
        "sticky": "",
        "labels": {"stable": "2"},
        "rejected": {},
        "promotion": None,
        "pending": None,
        "versions": [
            {
                "version": version,
                "state": "ready",
                "detail": "",
                "workers": 1,
                "ready_workers": 1,
                "share": share,
            }
            for version, share in (("1", 0.0), ("2", 100.0))
        ],
        "changed": {
            "at": 100.0,
            "by": "broker",
            "what": "take over",
            "why": "version 2 is the newest, and ready",
        },
    }
    assert len(two.saves) == 4, "each pipeline took over twice, and no more"


def test_a_pipeline_without_versions_answers_too(broker: Make) -> None:
    driver = broker()
    driver.worker()
    document = driver.traffic()
    assert (document["weights"], document["stable"]) == ({}, "")
    assert [(each["version"], each["share"]) for each in document["versions"]] == [("1", 100.0)]
    driver.ask("traffic", sticky="request-id")
    assert driver.document()["sticky"] == "request-id"
    assert driver.saves[-1].traffic.sticky == "request-id"


def test_all_changes_at_once(two: Driver) -> None:
    two.ask("traffic", pipeline="digits", weights={"1": 1, "2": 3}, sticky="cookie:u",
            labels={"old": "1"}, by="ann", why="A/B")  # fmt: skip
    document = two.document()
    assert (document["weights"], document["sticky"]) == ({"1": 25.0, "2": 75.0}, "cookie:u")
    assert document["labels"] == {"old": "1", "stable": "2", "canary": "1"}
    assert document["changed"] == {
        "at": 100.0, "by": "ann", "what": "traffic 1=1 2=3 sticky cookie:u label old=1",
        "why": "A/B",
    }  # fmt: skip
    assert two.traffic("words")["weights"] == {"2": 100.0}
    two.ask("traffic", pipeline="digits", latest=True, sticky="", labels={"old": ""})
    document = two.document()
    assert (document["follows"], document["sticky"], document["labels"]) == (
        True, "", {"stable": "2", "canary": "1"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "body", "code", "words"),
    [
        ("traffic", {}, ErrorCode.BAD_REQUEST, "say which pipeline: digits, words"),
        ("traffic", {"pipeline": "digit"}, ErrorCode.UNKNOWN_PIPELINE, "did you mean digits?"),
        ("traffic", {"wieghts": {}}, ErrorCode.BAD_REQUEST, "did you mean weights?"),
        ("traffic", {"weights": {"1": "a"}}, ErrorCode.BAD_REQUEST, "Expected `float`"),
        ("traffic", {"weights": {"9": 1}}, ErrorCode.UNKNOWN_VERSION, "'9'; there is 1, 2"),
        ("traffic", {"weights": {"1": -1}}, ErrorCode.BAD_REQUEST, "0 or more"),
        ("traffic", {"weights": {}}, ErrorCode.BAD_REQUEST, "no version has a share"),
        ("traffic", {"weights": {"1": 1}, "latest": True}, ErrorCode.BAD_REQUEST, "not both"),
        ("traffic", {"shadow": "2"}, ErrorCode.BAD_REQUEST, "has a share"),
        ("traffic", {"shadow": "7"}, ErrorCode.UNKNOWN_VERSION, "'7'"),
        ("traffic", {"sticky": "ip"}, ErrorCode.BAD_REQUEST, "header:NAME"),
        ("traffic", {"labels": {"a b": "1"}}, ErrorCode.BAD_REQUEST, "a label is"),
        ("traffic", {"labels": {"x": "8"}}, ErrorCode.UNKNOWN_VERSION, "'8'"),
        ("traffic", {"weights": {"v" * 300: 1}}, ErrorCode.BAD_REQUEST, "255 bytes"),
        ("traffic", {"weights": {"1\n2": -1}}, ErrorCode.BAD_REQUEST, "one line"),
        ("promote", {"version": "2", "steps": [1], "every_s": 1}, ErrorCode.BAD_REQUEST, "stable"),
        ("promote", {"version": "1", "steps": [2, 1], "every_s": 1}, ErrorCode.BAD_REQUEST, "grow"),
        ("promote", {"version": "1", "steps": [1]}, ErrorCode.BAD_REQUEST, "more than 0"),
        ("promote", {"steps": [1]}, ErrorCode.BAD_REQUEST, "say which version"),
        ("promote", {"stop": True, "version": "1"}, ErrorCode.BAD_REQUEST, "nothing else"),
        ("promote", {"version": "1", "steps": [1] * 101}, ErrorCode.BAD_REQUEST, "100 steps"),
        ("rollback", {"version": "1"}, ErrorCode.BAD_REQUEST, "there is no 'version'"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(
    two: Driver, what: str, body: dict[str, Any], code: ErrorCode, words: str
) -> None:
    before = two.traffic("digits")
    saves = len(two.saves)
    two.ask(what, **({"pipeline": "digits"} if body else {}) | body)
    report = two.reports[b"cli"].pop()
    assert (report.code, report.body) == (code, b"")
    assert words in report.message
    assert "\n" not in report.message
    assert two.traffic("digits") == before
    assert len(two.saves) == saves


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b"{",
        b"[]",
        b"null",
        b"7",
        b'{"weights": {"1": NaN}}',
        b"\xff",
        b'{"pipeline": []}',
    ],
)
def test_a_body_that_is_none(two: Driver, body: bytes) -> None:
    two.event(Asked(b"cli", Ask(PROTOCOL_VERSION, "traffic", body)))
    assert two.reports[b"cli"].pop().code == ErrorCode.BAD_REQUEST


def test_an_empty_body_asks(broker: Make) -> None:
    driver = broker()
    driver.event(Asked(b"cli", Ask(PROTOCOL_VERSION, "traffic")))
    assert driver.document()["pipeline"] == "p"


def test_what_it_does_not_know_is_refused(two: Driver) -> None:
    two.ask("the time")
    (refused,) = two.told(b"cli", Refused)
    assert "status, traffic, rollback, promote" in refused.reason


def test_by_and_why_are_kept_no_longer_than_a_line(two: Driver) -> None:
    two.ask("rollback", pipeline="digits", by="x" * 10_000, why="y" * 10_000)
    change = two.saves[-1].change
    assert (len(change.by), len(change.why)) == (500, 500)
    assert len(msgspec.json.encode(two.saves[-1].traffic)) < 2_000


def test_nothing_to_roll_back_to(broker: Make) -> None:
    driver = broker()
    driver.worker(version="1")
    driver.ask("rollback")
    assert "no version before" in driver.refused()
