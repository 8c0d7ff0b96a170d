"""The guard with real processes, under load: who is rolled back, how soon, and who stays."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream import write_reference
from tests.ports import free_port
from tests.system.client import HttpAnswer
from tests.system.deployment import Deployment, wait_until
from tests.system.load import FULL, Load, Request
from tests.system.test_metrics import scrape
from tests.system.test_versions import Mill

pytestmark = pytest.mark.system

SCRIPT = Path(__file__).parents[1] / "plugins" / "moody.py"
PIPELINES = """
[pipelines.p]
chain = ["moody"]
[pipelines.p.guard]
"""
STABLE, RAISES, SLOW, EQUAL, KILLS = "2", "3", "4", "5", "6"


class Guarded(Mill):
    """A good version, and four that may take its place."""

    def __init__(self) -> None:
        Deployment.__init__(self, pipelines=PIPELINES)
        self.metrics_port = free_port()
        self.by_version: Counter[tuple[str, int]] = Counter()

    def share(self, version: str, percent: float) -> None:
        self.by_version.clear()
        self.traffic(weights={STABLE: 100 - percent, version: percent})

    def load(self) -> Load:
        return Load(
            self.port,
            "/pipelines/p",
            clients=16,
            make=lambda _: Request(b"1", {}, self.count),
            rate=FULL,
        )

    def count(self, answer: HttpAnswer) -> bool:
        self.by_version[answer.headers["x-model-version"], answer.status] += 1
        return True

    def answered(self, version: str) -> int:
        return sum(count for (by, _), count in self.by_version.items() if by == version)

    def why(self, version: str) -> str:
        """Why it was rolled back; "" while it was not."""
        rejected: dict[str, str] = self.traffic()["rejected"]
        return rejected.get(version, "")


@pytest.fixture(scope="module")
def mill() -> Iterator[Guarded]:
    with Guarded() as mill:
        mill.broker("--metrics-port", str(mill.metrics_port))
        mill.gateway()
        write_reference(mill.folder, {"value": [0.0] * 500 + [1.0] * 500})
        for version in (STABLE, RAISES, SLOW, EQUAL, KILLS):
            mill.worker(SCRIPT, "--version", version, "--model-dir", str(mill.folder))
        mill.wait_ready()
        wait_until(lambda: are_ready(mill.traffic()), 30.0, "all versions are ready")
        yield mill


def are_ready(document: dict[str, Any]) -> bool:
    ready = [each for each in document["versions"] if each["state"] == "ready"]
    return len(ready) == 5


def test_one_that_raises_for_every_request(mill: Guarded) -> None:
    mill.traffic(weights={STABLE: 100})
    with mill.load() as load:
        wait_until(lambda: load.answered > 200, 20.0, "there is load")
        mill.share(RAISES, 5)
        wait_until(lambda: mill.why(RAISES), 30.0, "it is rolled back")
        answered = load.answered
        wait_until(lambda: load.answered > answered + 200, 20.0, "it goes on")
    assert load.answers["500 worker_error"] <= 200
    assert set(load.answers) == {"200", "500 worker_error"}
    assert mill.why(RAISES).startswith("errors: 100 % (")
    document = mill.traffic()
    assert document["weights"] == {STABLE: 100.0}
    assert document["changed"]["by"] == "guard"
    assert document["changed"]["why"] == document["rejected"][RAISES]


def test_one_that_takes_twice_as_long(mill: Guarded) -> None:
    with mill.load():
        mill.share(SLOW, 5)
        wait_until(lambda: mill.why(SLOW), 60.0, "it is rolled back")
    assert mill.answered(SLOW) <= 1000, "on a busy machine the two are harder to tell apart"
    assert mill.why(SLOW).startswith("latency: ")


def test_an_equal_one_stays(mill: Guarded) -> None:
    with mill.load():
        mill.share(EQUAL, 20)
        wait_until(lambda: mill.answered(EQUAL) >= 400, 60.0, "it has answered")
    assert not mill.why(EQUAL)
    report = mill.ask("compare", a=STABLE, b=EQUAL)
    document = msgspec.json.decode(report.body)
    assert document["verdict"].startswith("nothing shows that version 5 does worse than 2")
    assert document["b"]["requests"] >= 400
    assert document["b"]["p95_ms"] > 10
    shown = mill.run("compare", "p", STABLE, EQUAL).stdout
    assert "nothing shows that version 5 does worse than 2" in shown
    with mill.client() as client:
        over_http = client.get(f"/admin/pipelines/p/compare?a={STABLE}&b={EQUAL}").json()
    assert over_http["b"]["version"] == EQUAL


def test_what_the_plug_in_observes(mill: Guarded) -> None:
    """All requests say 1; half of those that the model was made with said 0."""

    def observed() -> dict[str, Any]:
        report = mill.ask("compare", a=STABLE, b=EQUAL)
        document: dict[str, Any] = msgspec.json.decode(report.body)
        both: dict[str, Any] = document["drift"]["moody"]["value"]
        return both

    wait_until(lambda: observed()["b"]["count"] >= 400, 20.0, "the last ones are told")
    both = observed()
    for side in ("a", "b"):
        assert (both[side]["mean"], both[side]["reference"]) == (1.0, "model")
        assert both[side]["drift"] == "large"
        assert both[side]["shift"] == pytest.approx(1.0)
    samples = scrape(mill.metrics_port)
    assert min(samples["millstream_observed_stability_index"].values()) > 0.25
    assert sum(samples["millstream_observed_total"].values()) > 800


def test_figures_of_each_version(mill: Guarded) -> None:
    def errors() -> dict[str, float]:
        counted = scrape(mill.metrics_port)["millstream_version_errors_total"]
        return {dict(labels)["version"]: value for labels, value in counted.items()}

    wait_until(lambda: RAISES in errors(), 20.0, "the figures are new")
    assert errors()[RAISES] >= 50
    assert errors()[STABLE] == 0
    times = scrape(mill.metrics_port)["millstream_version_latency_seconds"]
    stable = (("pipeline", "p"), ("quantile", "0.95"), ("version", STABLE))
    assert 0.01 < times[stable] < 10


@pytest.mark.timeout(150)
def test_one_that_kills_its_workers_with_each_request(mill: Guarded) -> None:
    """Hardly anybody notices; and what it could not answer the stable version can.

    At the end, since what the plug-in observes is not what it was.
    """
    mill.traffic(weights={STABLE: 100})
    answered: set[int] = set()
    sent: set[int] = set()

    def make(number: int) -> Request:
        sent.add(number)

        def is_right(answer: HttpAnswer) -> bool:
            answered.add(number)
            return answer.headers["x-model-version"] == STABLE and answer.json() == number

        return Request(b"%d" % number, {}, is_right)

    with Load(mill.port, "/pipelines/p", clients=4, make=make, rate=FULL) as load:
        wait_until(lambda: load.answered > 200, 20.0, "there is load")
        mill.share(KILLS, 5)
        wait_until(lambda: mill.why(KILLS), 100.0, "it is rolled back")
        until = load.answered + 200
        wait_until(lambda: load.answered > until, 20.0, "it goes on")
    assert mill.why(KILLS).startswith("errors: 100 % (")
    assert (load.wrong, load.cut) == ([], [])
    failed = sorted(sent - answered)
    assert 3 <= len(failed) <= 20, load.answers
    with mill.client() as client:
        again = [client.post("/pipelines/p", b"%d" % number) for number in failed]
    assert {answer.status for answer in again} == {200}
