"""Starting and ending processes: nothing is left behind, and a failed start says why."""

import os
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from benchmarks import processes

# Starts a child in a process group of its own and prints its id; neither minds SIGTERM.
STUBBORN_CHILD = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", code], process_group=0)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_process_and_its_children_are_gone_afterwards(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STUBBORN_CHILD]
    with processes.running(
        "parent", command, folder=tmp_path, environ=os.environ, stop_timeout_s=0.5
    ) as process:
        processes.wait_until(
            lambda: process.log.read_text().endswith("\n"), [process], timeout_s=10
        )
        child = int(process.log.read_text())
    assert process.popen.returncode == 0
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_an_early_exit_is_reported_with_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such model'); raise SystemExit(3)"]
    with (
        processes.running("server", command, folder=tmp_path, environ=os.environ) as process,
        pytest.raises(processes.StartFailed, match=r"server exited with 3:\nno such model"),
    ):
        processes.wait_until(lambda: False, [process], timeout_s=10)


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        processes.running("server", command, folder=tmp_path, environ=os.environ) as process,
        pytest.raises(processes.StartFailed, match="not ready after 0 s"),
    ):
        processes.wait_until(lambda: False, [process], timeout_s=0.2)


def test_nobody_answers_on_a_free_port() -> None:
    status, _ = processes.fetch(f"http://127.0.0.1:{processes.free_port()}/")
    assert status == 0
