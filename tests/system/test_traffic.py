"""Versions side by side as users have them: the commands, /admin, and what outlives a broker."""

import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.cli.ask import ask
from tests.system.deployment import Deployment, wait_until

pytestmark = pytest.mark.system

WHICH = Path(__file__).parent / "plugins" / "versioned.py"
PIPELINES = '[pipelines.which]\nchain = ["which"]\n'
STATE = "pipelines.traffic.db"


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """Versions 1 and 2, of which the newest has all the traffic at first."""
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker()
        mill.gateway()
        for version in ("1", "2"):
            mill.worker(WHICH, "--version", version)
        mill.wait_workers(2)
        mill.wait_ready()
        yield mill


def traffic(mill: Deployment) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(ask(mill.address, "traffic", keys=None))
    return document


def order(mill: Deployment, *argv: str) -> dict[str, Any]:
    """A command that changes something, and the document that it shows."""
    ran = mill.run(*argv, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def answers(mill: Deployment, count: int = 100) -> Counter[str]:
    """Which versions answer so many requests."""
    with mill.client() as client:
        said = [client.post("/pipelines/which", b"1") for _ in range(count)]
    assert {answer.status for answer in said} == {200}
    return Counter(str(answer.json()) for answer in said)


def begin(mill: Deployment) -> None:
    """Version 1 is stable, and has it all."""
    body = json.dumps({"weights": {"1": 1}, "sticky": "", "shadow": ""}).encode()
    assert json.loads(ask(mill.address, "traffic", keys=None, body=body))["stable"] == "1"


def test_shares_and_back(mill: Deployment) -> None:
    begin(mill)
    assert answers(mill, 20) == {"1": 20}
    document = order(mill, "traffic", "which", "1=80", "2=20", "--why", "a look at 2")
    assert document["weights"] == {"1": 80.0, "2": 20.0}
    assert (document["stable"], document["canary"]) == ("1", "2")
    shared = answers(mill)
    assert 15 <= shared["2"] <= 25
    assert order(mill, "rollback", "which", "--why", "enough")["weights"] == {"1": 100.0}
    assert answers(mill, 20) == {"1": 20}
    changes = json.loads(mill.run("history", "which", "--json", "--limit", "2").stdout)["changes"]
    assert [(each["what"], each["why"]) for each in changes] == [
        ("rollback", "enough"),
        ("traffic 1=80 2=20", "a look at 2"),
    ]
    assert "@" in changes[0]["by"]
    assert abs(changes[0]["at"] - time.time()) < 60


def test_what_is_shown(mill: Deployment) -> None:
    begin(mill)
    shown = mill.run("traffic", "which", "1=75", "2=25", "--label", "good=1")
    assert shown.returncode == 0
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["1", "75", "%", "stable", "ready", "1/1", "-"] in lines
    assert ["2", "25", "%", "canary", "ready", "1/1", "-"] in lines
    assert "good=1" in shown.stdout
    assert "traffic 1=75 2=25" in mill.run("history", "which").stdout


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("traffic", "which", "9=1"), "pipeline 'which' has no version '9'; there is 1, 2"),
        (("traffic", "whic"), "there is no pipeline 'whic'; there is which; did you mean which?"),
        (("promote", "which", "--stop"), "no version is being promoted"),
        (("traffic", "which", "1=0"), "no version has a share: one at least must have more than 0"),
    ],
)
def test_the_broker_says_no(mill: Deployment, argv: tuple[str, ...], line: str) -> None:
    begin(mill)
    ran = mill.run(*argv)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", f"millstream: {line}\n")


def test_over_http(mill: Deployment) -> None:
    begin(mill)
    base, typed = "/admin/pipelines/which", {"Content-Type": "application/json"}
    with mill.client() as client:
        body = json.dumps({"weights": {"1": 1, "2": 1}, "by": "ann"}).encode()
        changed = client.post(f"{base}/traffic", body, headers=typed)
        assert (changed.status, changed.json()["weights"]) == (200, {"1": 50.0, "2": 50.0})
        seen = client.get(f"{base}/traffic").json()
        assert seen["changed"]["by"] == "ann@127.0.0.1"
        assert client.post(f"{base}/rollback", b"", headers=typed).json()["stable"] == "1"
        latest = client.get(f"{base}/history?limit=1").json()["changes"][0]
        assert (latest["what"], latest["by"]) == ("rollback", "127.0.0.1")
        assert client.post(f"{base}/rollback", b"").status == 415
        wrong = client.post(f"{base}/traffic", b'{"weight": {}}', headers=typed)
        assert wrong.status == 400
        assert "did you mean weights?" in wrong.json()["error"]["message"]
        assert client.get("/admin/pipelines/none/traffic").status == 404


def test_a_promotion_goes_on_when_the_broker_is_killed(mill: Deployment) -> None:
    begin(mill)
    document = order(mill, "promote", "which", "2", "--steps", "10,50,100", "--every", "5s")
    assert document["weights"] == {"1": 90.0, "2": 10.0}
    wait_until(lambda: traffic(mill)["promotion"]["elapsed_s"] > 2.5, 20.0)
    (broker,) = [role for role in mill.roles if role.name.startswith("broker") and role.is_running]
    broker.kill()
    mill.broker()
    mill.wait_workers(2)
    wait_until(lambda: traffic(mill)["promotion"]["step"] == 1, 20.0)
    assert traffic(mill)["weights"] == {"1": 50.0, "2": 50.0}
    order(mill, "promote", "which", "--stop")
    stop, step, start = _history(mill)[:3]
    assert stop["what"] == "promote: stop"
    assert step["what"] == "promote 2: 50 %"
    assert start["what"] == "promote 2: 10,50,100 every 5 s"
    assert 4.9 < step["at"] - start["at"] < 7.5, "the time before the kill counts"
    assert order(mill, "rollback", "which")["weights"] == {"1": 100.0}


def _history(mill: Deployment) -> list[dict[str, Any]]:
    body = json.dumps({"pipeline": "which"}).encode()
    changes: list[dict[str, Any]] = json.loads(ask(mill.address, "history", keys=None, body=body))[
        "changes"
    ]
    return changes


def test_a_change_waits_for_its_version() -> None:
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker()
        mill.gateway()
        mill.worker(WHICH, "--version", "2")
        gate = mill.folder / "gate"
        mill.worker(WHICH, "--version", "1", env={"GATE": str(gate)})
        mill.wait_workers(1)
        mill.wait_ready()
        wait_until(lambda: len(traffic(mill)["versions"]) == 2, 30.0, "version 1 is known")

        impatient = mill.start("traffic", "which", "1=1")
        impatient.wait_for_output("waiting for version 1")
        impatient.expected_exit = 130
        impatient.send(signal.SIGINT)
        impatient.check_exit()
        assert "the change goes on at the broker" in impatient.output
        assert traffic(mill)["pending"]["waits_for"] == ["1"]

        headers = {"Content-Type": "application/json", "X-Timeout-Ms": "200"}
        with mill.client() as client:
            answer = client.post(
                "/admin/pipelines/which/traffic", b'{"weights": {"1": 1}}', headers=headers
            )
            assert (answer.status, answer.json()["pending"]["waits_for"]) == (202, ["1"])

        patient = mill.start("traffic", "which", "1=3", "2=1")
        patient.wait_for_output("waiting for version 1")
        assert answers(mill, 10) == {"2": 10}
        gate.touch()
        patient.check_exit(30.0)
        assert ["1", "75", "%"] in [line.split()[:3] for line in patient.output.splitlines()]
        assert traffic(mill)["pending"] is None


# ------------------------------------------------------------------ where it is kept


@pytest.fixture
def alone() -> Iterator[Deployment]:
    """Nothing but a folder with a pipeline file."""
    with Deployment(pipelines=PIPELINES) as mill:
        yield mill


def test_it_lies_beside_the_pipeline_file(alone: Deployment) -> None:
    alone.broker().wait_for_output("listening")
    assert (alone.folder / STATE).stat().st_mode & 0o777 == 0o600


def test_none_keeps_nothing(alone: Deployment) -> None:
    alone.broker("--state", "none").wait_for_output("listening")
    assert not (alone.folder / STATE).exists()
    assert _history(alone) == []


def test_two_brokers_never_share_it(alone: Deployment) -> None:
    alone.broker().wait_for_output("listening")
    other = ("--broker", f"ipc://{alone.runtime}/other.sock")
    said = f"{STATE} is in use by another broker (--state FILE names another"
    ran = alone.run("broker", "pipelines.toml", *other, "--state", str(alone.folder / STATE))
    assert ran.returncode == 2
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("millstream: ")]
    assert said in line
    second = alone.broker(*other)  # of the same pipelines, as a deployment of its own
    second.wait_for_output("listening")
    assert said in second.output


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("pipelines.toml", "pipelines.toml is damaged, or no file of a broker's traffic"),
        (".", ". cannot be written: Is a directory"),
        ("no/such/folder.db", "no/such/folder.db cannot be made: No such file or directory"),
    ],
)
def test_a_file_that_will_not_do(alone: Deployment, path: str, line: str) -> None:
    before = (alone.folder / "pipelines.toml").read_bytes()
    ran = alone.run("broker", "pipelines.toml", "--state", path)
    assert ran.returncode == 2
    assert line in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
    assert (alone.folder / "pipelines.toml").read_bytes() == before


def test_a_place_where_no_file_can_be(alone: Deployment) -> None:
    """As with a folder that cannot be written: without --state that is told, and no more."""
    with (alone.folder / "pipelines.toml").open() as file:
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        broker = alone.start("broker", path)
        broker.wait_for_output("listening")
    assert "traffic_not_kept" in broker.output
    assert f"not kept: {path}.traffic.db cannot be made" in alone.run("status").stdout


def test_a_disk_that_is_full_is_told_everywhere() -> None:
    """The broker may write to the beginning of its files alone, which is as good as a full one."""
    with Deployment(pipelines=PIPELINES) as mill:
        broker = mill.broker()
        mill.worker(WHICH, "--version", "1")
        mill.wait_workers(1)
        wait_until(lambda: len(_history(mill)) == 1, 30.0, "the first version has taken over")
        _limit_files(broker.pid, broker.log.stat().st_size + 2048)
        ran = mill.run("traffic", "which", "1=1")
        assert ran.returncode == 0
        assert ran.stderr.startswith("millstream: in force, but not kept for a restart")
        assert "traffic_not_kept" in broker.output
        assert "changes of the traffic are not kept" in mill.run("status").stdout
        _limit_files(broker.pid, None)
        assert mill.run("traffic", "which", "1=1").stderr == ""
        assert "not kept" not in mill.run("status").stdout


def _limit_files(pid: int, file_bytes: int | None) -> None:
    """How large the files of a process may become."""
    limit = resource.RLIM_INFINITY if file_bytes is None else file_bytes
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
