"""A shadow with real processes: users see one version, and what the other says is counted."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from millstream.cli.ask import ask
from tests.system.client import HttpAnswer
from tests.system.deployment import Deployment, wait_until
from tests.system.load import Load, Request

pytestmark = pytest.mark.system

ADDS = Path(__file__).parent / "plugins" / "adds.py"
PIPELINES = """
[pipelines.close]
chain = ["adds"]
[pipelines.own]
chain = ["adds"]
[pipelines.own.shadow]
compare = "plugin"
[pipelines.guarded]
chain = ["adds"]
[pipelines.guarded.guard]
agreement = 0.99
"""


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """Version 2 answers, and version 3 is the shadow, of both pipelines."""
    with Deployment(pipelines=PIPELINES) as mill:
        broker = mill.broker()
        mill.gateway()
        for version in ("2", "3"):
            mill.worker(ADDS, "--version", version)
        mill.wait_workers(2)
        mill.wait_ready()
        for name in ("close", "own", "guarded"):
            operate(mill, "traffic", pipeline=name, weights={"2": 1})
            operate(mill, "traffic", pipeline=name, shadow="3")
        broker.wait_for_output("comparer_joined")
        yield mill


def operate(mill: Deployment, what: str, **body: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(
        ask(mill.address, what, keys=None, body=json.dumps(body).encode())
    )
    return told


def agreement(mill: Deployment, name: str = "close") -> dict[str, Any]:
    found = operate(mill, "compare", pipeline=name, a="2", b="3")["agreement"]
    return found or {"compared": 0}


def comparers(mill: Deployment) -> list[psutil.Process]:
    """The broker's children: there is one at most."""
    (broker,) = [role for role in mill.roles if role.name.startswith("broker")]
    return [each for each in broker.children() if each.status() != psutil.STATUS_ZOMBIE]


def send(mill: Deployment, numbers: range, name: str = "close") -> None:
    with mill.client() as client:
        for number in numbers:
            answer = client.post(f"/pipelines/{name}", str(number).encode())
            assert (answer.status, answer.json()) == (200, {"sum": number})
            assert answer.headers["x-model-version"] == "2"


def until_compared(mill: Deployment, count: int, name: str = "close") -> dict[str, Any]:
    """The figures, once so many pairs have been compared."""
    wait_until(lambda: agreement(mill, name)["compared"] >= count, 30.0, f"{count} compared")
    return agreement(mill, name)


def test_disagreements_are_counted_and_users_see_none_of_it(mill: Deployment) -> None:
    before = agreement(mill)
    send(mill, range(40))
    found = until_compared(mill, before["compared"] + 36)
    assert found["differed"] == 4
    assert found["agreed"] == found["compared"] - 4
    assert found["samples"][0] == {
        "kind": "differs",
        "stable": '{"sum":30}',
        "shadow": '{"sum":31}',
    }
    status = json.loads(mill.run("status", "--json").stdout)["pipelines"]["close"]
    assert status["shadow"] == {"version": "3", "hindrance": "", "copies": 0, "bytes": 0}
    assert '{"sum":31}' not in mill.logs()
    shown = re.search(r"shadow 3: (\d+) copies, (\d+) compared, ", mill.run("status").stdout)
    assert shown, "the last ones may have been compared since"
    assert (int(shown[1]), int(shown[2])) >= (found["copies"], found["compared"])


def test_a_plug_in_may_compare_by_itself(mill: Deployment) -> None:
    send(mill, range(20), "own")
    found = until_compared(mill, 20, "own")
    assert (found["agreed"], found["note"]) == (found["compared"], "")


def test_the_guard_ends_a_shadow_that_disagrees_too_often(mill: Deployment) -> None:
    """A tenth of its answers are others."""

    def why() -> str:
        send(mill, range(20), "guarded")
        rejected: dict[str, str] = operate(mill, "traffic", pipeline="guarded")["rejected"]
        return rejected.get("3", "")

    said = wait_until(why, 30.0, "it is ended")
    assert said.startswith("agreement: ")
    assert said.endswith(" of its answers agree with those of version 2, 99 % are wanted")
    assert "version 3 is rejected: agreement: " in mill.run("status").stdout
    (latest, *_) = operate(mill, "history", pipeline="guarded")["changes"]
    assert (latest["by"], latest["why"]) == ("guard", said)
    assert "shadow off: version 3 does not answer as 2 does" in mill.logs()
    promoted = mill.run("promote", "guarded", "3", "--steps", "5,100", "--every", "1s")
    assert promoted.returncode == 1
    assert "version 3 is not promoted: as the shadow it was rejected" in promoted.stderr


def test_who_compares_is_replaced_when_it_is_killed(mill: Deployment) -> None:
    (old,) = comparers(mill)
    old.send_signal(signal.SIGKILL)
    old.wait(20)
    send(mill, range(1, 9))
    wait_until(lambda: [each for each in comparers(mill) if each != old], 30.0)
    before = agreement(mill)["compared"]

    def compares_again() -> bool:
        send(mill, range(1, 2))
        return bool(agreement(mill)["compared"] > before)

    wait_until(compares_again, 30.0)


def test_a_shadow_that_dies_and_one_that_is_removed_harm_nobody(mill: Deployment) -> None:
    def make(number: int) -> Request:
        def is_right(answer: HttpAnswer) -> bool:
            return bool(answer.json() == {"sum": number})

        return Request(str(number).encode(), {}, is_right)

    before = agreement(mill)["compared"]
    with Load(mill.port, "/pipelines/close", clients=4, make=make) as load:
        wait_until(lambda: agreement(mill)["compared"] > before + 20, 30.0)
        (victim,) = [each for each in mill.workers() if each["version"] == "3"]
        psutil.Process(victim["pid"]).kill()
        wait_until(lambda: mill.workers()[-1]["pid"] != victim["pid"], 30.0)
        mill.wait_workers(2)
        killed = agreement(mill)["compared"]
        wait_until(lambda: agreement(mill)["compared"] > killed + 20, 30.0)
        operate(mill, "traffic", pipeline="close", shadow="")
        answered = load.answered
        wait_until(lambda: load.answered > answered + 50, 30.0)
    assert set(load.answers) == {"200"}
    assert not load.wrong
    assert not load.cut
    operate(mill, "traffic", pipeline="own", shadow="")
    wait_until(lambda: not comparers(mill), 20.0)
