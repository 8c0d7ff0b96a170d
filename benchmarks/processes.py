"""Starts server processes and ends them again, whatever happens in between.

Knows nothing of what the processes are. Every process leads a session of its own, so that a Ctrl-C
in the terminal reaches the benchmark alone, which then ends them in order.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types

STOP_TIMEOUT_S = 15.0
POLL_S = 0.05
PROBE_TIMEOUT_S = 2.0
LOG_TAIL_LINES = 15


class StartFailed(Exception):
    """A server did not come up; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Process:
    """A running process and the file that its output goes to."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])


@contextlib.contextmanager
def running(
    name: str,
    command: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    stop_timeout_s: float = STOP_TIMEOUT_S,
) -> Iterator[Process]:
    """Run `command` in `folder`, logging to `folder/name.log`, and end it on leaving.

    It is asked with SIGTERM first, and has so much time; it and every process it started are gone
    afterwards.
    """
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Process(name, popen, log)
    finally:
        with _undisturbed():
            _stop(popen, stop_timeout_s)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off a Ctrl-C or SIGTERM until what is begun is finished."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop(popen: subprocess.Popen[bytes], timeout_s: float) -> None:
    descendants: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        descendants = psutil.Process(popen.pid).children(recursive=True)
    popen.terminate()
    try:
        popen.wait(timeout_s)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()
    for process in _wait_for(descendants, timeout_s):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _wait_for(descendants, timeout_s)
    # Whatever it started after the list was made is in its process group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(popen.pid, signal.SIGKILL)


def _wait_for(descendants: Sequence[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait for these to end, and return those that did not in time."""
    give_up = time.monotonic() + timeout_s
    while (left := [process for process in descendants if _lives(process)]) and (
        time.monotonic() < give_up
    ):
        time.sleep(POLL_S)
    return left


def _lives(process: psutil.Process) -> bool:
    """A zombie has ended: only whoever inherited it has not looked yet, which may take seconds."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until(
    condition: Callable[[], bool], processes: Sequence[Process], *, timeout_s: float
) -> None:
    """Return once `condition` holds.

    Raises StartFailed when one of the processes ends first, or when the time is over.
    """
    give_up = time.monotonic() + timeout_s
    while not condition():
        for process in processes:
            if process.popen.poll() is not None:
                raise StartFailed(
                    f"{process.name} exited with {process.popen.returncode}:\n{process.log_tail()}"
                )
        if time.monotonic() > give_up:
            tails = "\n".join(f"[{process.name}]\n{process.log_tail()}" for process in processes)
            raise StartFailed(f"not ready after {timeout_s:.0f} s:\n{tails}")
        time.sleep(POLL_S)


def fetch(
    url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """GET `url`, or POST a body to it: status and text; status 0 when nobody answers."""
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=PROBE_TIMEOUT_S) as response:
            return response.status, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def free_port() -> int:
    """A TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
