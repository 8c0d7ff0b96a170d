"""Versions side by side with real processes: who answers, who sticks, and what can be asked."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import zmq

from broker.wire.errors import ErrorCode
from broker.wire.frames import decode_from_broker, encode
from broker.wire.messages import PROTOCOL_VERSION, Ask, Report
from tests.system.client import HttpAnswer
from tests.system.deployment import Deployment, Role, wait_until

SCRIPT = Path(__file__).parents[1] / "plugins" / "versioned.py"
PIPELINES = """
[pipelines.p]
chain = ["first", "second"]
"""


class Mill(Deployment):
    """Two versions in two stages."""

    def __init__(self) -> None:
        super().__init__(pipelines=PIPELINES)
        self.fleets: dict[str, list[Role]] = {}

    def fleet(self, version: str) -> None:
        """Workers of this version for both stages."""
        self.fleets[version] = [
            self.worker(f"{SCRIPT}:{name}", "--version", version)
            for name in ("Versioned", "Second")
        ]

    def ask(self, what: str, **body: Any) -> Report:
        """An operation, over the broker's own socket."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.linger = 0
            socket.connect(self.address)
            socket.send_multipart(encode(Ask(PROTOCOL_VERSION, what, msgspec.json.encode(body))))
            assert socket.poll(10_000), "no answer"
            report = decode_from_broker(socket.recv_multipart())
            assert isinstance(report, Report), report
            return report

    def traffic(self, **body: Any) -> dict[str, Any]:
        report = self.ask("traffic", **body)
        assert not report.code, report.message
        document: dict[str, Any] = msgspec.json.decode(report.body)
        return document

    def post(self, path: str = "", **headers: str) -> HttpAnswer:
        with self.client() as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return client.post(f"/pipelines/p{path}", b"[]", headers=named)

    def version(self, path: str = "", **headers: str) -> str:
        """Which version answers; in all its stages, and it says so itself."""
        answer = self.post(path, **headers)
        assert answer.status == 200, answer.body
        version = answer.headers["x-model-version"]
        assert answer.json() == [version, version]
        return version


@pytest.fixture(scope="module")
def mill() -> Iterator[Mill]:
    with Mill() as mill:
        mill.broker()
        mill.fleet("1")
        mill.gateway()
        mill.wait_ready()
        yield mill


def test_the_newest_takes_over_and_a_rollback_brings_back_the_one_before(mill: Mill) -> None:
    assert mill.version() == "1"
    mill.fleet("2")
    wait_until(lambda: mill.traffic()["stable"] == "2", 30.0, "version 2 takes over")
    assert {mill.version() for _ in range(20)} == {"2"}
    report = mill.ask("rollback", by="a test", why="to see it")
    document = msgspec.json.decode(report.body)
    assert document["weights"] == {"1": 100.0}
    assert document["rejected"] == {"2": "to see it"}
    assert mill.version() == "1"


def test_shares_labels_and_versions_in_urls(mill: Mill) -> None:
    mill.traffic(weights={"1": 75, "2": 25}, sticky="")
    mill.traffic(labels={"best": "2"})
    wait_until(lambda: "best" in described(mill)["labels"], 20.0, "the gateway knows")
    assert Counter(mill.version() for _ in range(40))["2"] == pytest.approx(10, abs=1)
    for path, version in {"1": "1", "2": "2", "best": "2", "stable": "1", "canary": "2"}.items():
        assert mill.version(f"/versions/{path}") == version
    for path in ("3", "besT", "a b", "é"):
        assert mill.post(f"/versions/{quote(path)}").code == "unknown_version"
    assert described(mill)["traffic"] == [
        {"version": "1", "state": "ready", "share": 75.0},
        {"version": "2", "state": "ready", "share": 25.0},
    ]
    shown = mill.run("status").stdout
    assert "traffic: 1 75 %, 2 25 % (canary)" in shown


def described(mill: Mill) -> dict[str, Any]:
    with mill.client() as client:
        answer: dict[str, Any] = client.get("/pipelines/p").json()
        return answer


@pytest.mark.parametrize(
    ("rule", "header"),
    [
        ("header:X-User-Id", "X_User_Id"),
        ("cookie:user", "Cookie"),
        ("request-id", "X_Request_Id"),
    ],
)
def test_who_sticks_to_a_version(mill: Mill, rule: str, header: str) -> None:
    mill.traffic(weights={"1": 50, "2": 50}, sticky=rule)
    prefix = "user=" if rule.startswith("cookie") else ""
    seen = set()
    for user in range(12):
        (version,) = {mill.version(**{header: f"{prefix}u{user}"}) for _ in range(3)}
        seen.add(version)
    assert seen == {"1", "2"}
    assert mill.version("/versions/1", **{header: f"{prefix}u1"}) == "1"
    mill.traffic(sticky="")


def test_what_cannot_be_is_one_line(mill: Mill) -> None:
    report = mill.ask("traffic", weights={"7": 1})
    assert report.code == ErrorCode.UNKNOWN_VERSION
    assert report.message == "pipeline 'p' has no version '7'; there is 1, 2"
    assert mill.ask("traffic", wheights={}).code == ErrorCode.BAD_REQUEST


def test_a_version_leaves_without_a_failed_request(mill: Mill) -> None:
    mill.traffic(weights={"1": 100})
    for role in mill.fleets["2"]:
        role.stop()
    assert {mill.version() for _ in range(5)} == {"1"}
    answer = mill.post("/versions/2")
    assert (answer.status, answer.code) in {(503, "not_ready"), (404, "unknown_version")}
    mill.traffic(latest=True)
