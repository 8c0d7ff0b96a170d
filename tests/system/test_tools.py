"""Tools beside a real deployment: its profile, and advice for it, under load."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.deployment import Deployment, wait_until

pytestmark = pytest.mark.system

PLUGINS = Path(__file__).parent / "plugins"
PIPELINES = '[pipelines.p]\nchain = ["burns"]\n[pipelines.q]\nchain = ["absent"]\n'
CLIENTS = 30


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """One stage with two workers, which are busy all the time."""
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker()
        mill.worker(PLUGINS / "burns.py", "--processes", "2")
        mill.gateway()
        mill.wait_workers(2)
        stop = threading.Event()

        def ask_on() -> None:
            with mill.client() as client:
                while not stop.is_set():
                    assert client.post("/pipelines/p", b"1").status == 200

        threads = [threading.Thread(target=ask_on) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        wait_until(lambda: sum(each["batches"] for each in mill.workers()) > 50, 30.0)
        yield mill
        stop.set()
        for thread in threads:
            thread.join()


# ------------------------------------------------------------------ profile


def test_a_flame_graph_shows_what_the_plug_in_does(mill: Deployment) -> None:
    worker = mill.workers()[0]
    pid, index, here = worker["pid"], worker["index"], socket.gethostname()
    done = mill.run("profile", str(pid), "--seconds", "1", within_s=60)
    assert (done.returncode, done.stdout) == (0, f"profile-burns-{pid}.svg\n"), done.stderr
    assert done.stderr == f"recording burns/{index} (pid {pid} at {here}) for 1 s\n"
    drawn = (mill.folder / f"profile-burns-{pid}.svg").read_text()
    assert drawn.startswith("<?xml")
    assert "burn (" in drawn
    # It was looked at while it worked: one that is stopped for that is given up.
    assert not mill.status()["counters"].get("workers_lost")


def test_a_profile_for_speedscope_by_the_workers_name(mill: Deployment) -> None:
    argv = ("--seconds", "1", "--format", "speedscope", "--output", "p.json")
    done = mill.run("profile", "burns/1", *argv, within_s=60)
    assert done.returncode == 0, done.stderr
    frames = json.loads((mill.folder / "p.json").read_text())["shared"]["frames"]
    assert "burn" in {frame["name"] for frame in frames}


def test_what_cannot_be_profiled_is_one_line(mill: Deployment) -> None:
    for word, code, words in (
        ("burns", 1, "'burns' is 2 workers; give the pid of one: burns/0 (pid "),
        ("nobody", 1, "no worker is 'nobody'; there is burns/0 (pid "),
    ):
        done = mill.run("profile", word)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith(f"millstream: {words}")
    done = mill.run("profile", "burns/0", "--output", "/no/folder/a.svg")
    assert (done.returncode, done.stderr) == (
        2,
        "millstream: /no/folder/a.svg: No such file or directory\n",
    )


# ------------------------------------------------------------------ advise


def test_advice_for_a_load(mill: Deployment) -> None:
    done = mill.run("advise", "p", "--rate", "20", "--slo-ms", "2000", "--json", within_s=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (now,), (advised,) = found["now"], found["advised"]
    assert (now["workers"], advised["workers"]) == (2, 1)
    assert 0.015 < now["a_s"] + now["c_s"] < 0.5
    done = mill.run("advise", "p", "--slo-ms", "5000", within_s=60)
    assert done.stdout.startswith("p: for "), done.stderr


def test_what_cannot_be_advised_is_one_line(mill: Deployment) -> None:
    for argv, words in (
        (("q", "--rate", "1", "--slo-ms", "100"), "stage absent of q has no worker"),
        (("x", "--rate", "1", "--slo-ms", "100"), "there is no pipeline 'x'; there is p, q"),
        (("p", "--rate", "1", "--slo-ms", "1"), "one request alone takes"),
    ):
        done = mill.run("advise", *argv)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"millstream: {words}"), done.stderr
        assert done.stderr.count("\n") == 1
