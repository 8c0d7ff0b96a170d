"""Tools beside a real deployment: its profile, advice for it, its live view, all under load."""

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
import pytest

from tests.system.deployment import Deployment, wait_until

pytestmark = pytest.mark.system

PLUGINS = Path(__file__).parent / "plugins"
PIPELINES = '[pipelines.p]\nchain = ["burns"]\n[pipelines.q]\nchain = ["absent"]\n'
CLIENTS = 60
"""Far more than two batches hold: most wait, which makes of the stage a bottleneck."""


def answers(mill: Deployment) -> bool:
    with mill.client() as client:
        return client.get("/readyz?pipeline=p").status == 200


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """One stage with two workers, which are busy all the time."""
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker()
        mill.worker(PLUGINS / "burns.py", "--processes", "2")
        mill.gateway().wait_for_output("event=listening")
        mill.wait_workers(2)
        wait_until(lambda: answers(mill), 30.0, "pipeline p is ready")
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
    assert any(frame["name"].endswith("burn") for frame in frames)


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
    done = mill.run("advise", "p", "--rate", "2", "--slo-ms", "60000", "--json", within_s=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (now,), (advised,) = found["now"], found["advised"]
    assert (now["workers"], advised["workers"]) == (2, 1)
    assert now["a_s"] + now["c_s"] > 0.015  # however long, where the machine is busy
    done = mill.run("advise", "p", "--slo-ms", "60000", within_s=60)
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


# ------------------------------------------------------------------ top


class Screen:
    """A terminal in which `millstream top` runs, as somebody sees it."""

    def __init__(self, mill: Deployment, *, columns: int = 80, rows: int = 24) -> None:
        self._ours, theirs = pty.openpty()
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._resize(columns, rows)
        self.process = subprocess.Popen(
            [*mill.command, "top", "--interval", "0.2"],
            # Some shells say so, too; it is not what a terminal is like after a resize.
            env={**mill.env, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        os.close(theirs)

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._ours)

    def _resize(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._resize(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def wait(self, seen: Callable[[str], bool], within_s: float = 30.0) -> str:
        """Until what is on the screen is as wanted; returns that."""
        end = time.monotonic() + within_s
        while not seen(text := "\n".join(line.rstrip() for line in self._screen.display)):
            assert time.monotonic() < end, text
            assert self.process.poll() is None, text
            if select.select([self._ours], [], [], 0.1)[0]:
                self._stream.feed(os.read(self._ours, 65536))
        return text

    def end(self) -> tuple[int, str]:
        """Exit code and standard error; what it still writes is read meanwhile."""
        end = time.monotonic() + 20.0
        while self.process.poll() is None:
            assert time.monotonic() < end
            if select.select([self._ours], [], [], 0.1)[0]:
                try:
                    self._stream.feed(os.read(self._ours, 65536))
                except OSError:  # how a terminal says that the other end has closed
                    break
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err.decode()


def test_the_live_view_under_load(mill: Deployment) -> None:
    with Screen(mill) as screen:
        text = screen.wait(lambda text: "burns is the bottleneck" in text and "▶ burns" in text)
        assert text.startswith("p  ready")
        screen.wait(lambda text: "requests ▁" in text or "█ up to" in text)
        for each in mill.workers():
            assert str(each["pid"]) in text
        screen.press("\t")
        screen.wait(lambda text: text.startswith("q  not ready") and "absent" in text)
        screen.press("1")
        screen.press("s")
        screen.wait(lambda text: text.startswith("p  ready") and "by busy" in text)
        screen.press(" ")
        screen.wait(lambda text: "PAUSED" in text)
        screen.resize(140, 40)
        text = screen.wait(lambda text: "t(b) ms" in text and "q quit" in text.splitlines()[-1])
        assert len(text.splitlines()) == 40
        screen.press("q")
        assert screen.end() == (0, "")


def test_ctrl_c_ends_the_live_view(mill: Deployment) -> None:
    with Screen(mill, columns=60, rows=12) as screen:
        screen.wait(lambda text: text.startswith("p  ready") and "q quit" in text)
        screen.process.send_signal(signal.SIGINT)
        assert screen.end() == (0, "")


def test_in_a_pipe_it_is_shown_once(mill: Deployment) -> None:
    done = mill.run("top")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("p  ready")
    assert "\x1b" not in done.stdout
    assert "burns/0" in done.stdout


def test_without_a_broker_it_says_so(mill: Deployment) -> None:
    done = mill.run("top", "--broker", f"ipc://{mill.folder}/none.sock")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("millstream: no broker answers at ")
