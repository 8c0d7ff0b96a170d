"""A scripted broker, and supervisors as real processes that never outlive their test."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.integration.workers.scripted_broker import ScriptedBroker
from workers.crew import IMPORT_S, STOPPED_S, TEARDOWN_S
from workers.options import WorkerOptions
from workers.rotation import RETRY_S
from workers.versions import GRACE_S

PLUGINS = Path(__file__).parents[2] / "plugins"
ROOT = Path(__file__).parents[3]

_RUN = """
import os, sys, msgspec
from broker.wire import log
from workers import crew, rotation, versions
from workers.options import WorkerOptions
from workers.supervisor import supervise
log.setup_from(os.environ)
limits = msgspec.json.decode(sys.argv[2])
crew.STOPPED_S, crew.IMPORT_S, crew.TEARDOWN_S, rotation.RETRY_S, versions.GRACE_S = limits
sys.exit(supervise(msgspec.json.decode(sys.argv[1], type=WorkerOptions)))
"""


class Limits(msgspec.Struct, array_like=True):
    """Times that a test need not wait for."""

    stopped_s: float = STOPPED_S
    import_s: float = IMPORT_S
    teardown_s: float = TEARDOWN_S
    retry_s: float = RETRY_S
    grace_s: float = GRACE_S


class Supervisor:
    """One supervisor process, its log, and the workers it has."""

    def __init__(
        self,
        options: WorkerOptions,
        log: Path,
        environ: dict[str, str],
        limits: Limits,
        prefix: list[str],
    ) -> None:
        self._log = log
        env = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
        argv = [msgspec.json.encode(fields).decode() for fields in (options, limits)]
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-P", "-c", _RUN, *argv],
                stdout=out,
                stderr=out,
                cwd=log.parent,
                env=env,
                start_new_session=True,
            )
        self._seen: set[int] = set()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_log(self, broker: ScriptedBroker, text: str, timeout_s: float = 20.0) -> None:
        """Until its log says so."""
        deadline = time.monotonic() + timeout_s
        while text not in self.log:
            assert time.monotonic() < deadline, self.log
            broker.pump(0.02)

    def worker_pids(self) -> list[int]:
        with contextlib.suppress(psutil.NoSuchProcess):
            pids = [child.pid for child in psutil.Process(self.process.pid).children()]
            self._seen.update(pids)
            return pids
        return []

    def signal(self, signum: int) -> None:
        self.worker_pids()
        self.process.send_signal(signum)

    def wait(self, broker: ScriptedBroker | None = None, timeout_s: float = 25.0) -> int:
        """Its exit code; a broker given goes on meanwhile."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running; log:\n{self.log}"
            if broker is not None:
                broker.pump(0.02)
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.05)
        return self.process.returncode

    def wait_orphans_gone(self, timeout_s: float = 20.0) -> None:
        """Every worker that was ever seen has ended, if not yet been reaped by who inherits it."""
        deadline = time.monotonic() + timeout_s
        while alive := [pid for pid in self._seen if is_alive(pid)]:
            assert time.monotonic() < deadline, alive
            time.sleep(0.02)

    def end(self) -> None:
        self.worker_pids()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        for pid in self._seen:  # those that a test has stopped
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        ended: bool = psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    return not ended


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="mw") as path:
        yield Path(path)


@pytest.fixture
def broker(folder: Path) -> Iterator[ScriptedBroker]:
    with ScriptedBroker(folder) as scripted:
        yield scripted


Start = Callable[..., Supervisor]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts a supervisor for a script among the test plug-ins."""
    started: list[Supervisor] = []

    def start_one(
        script: str,
        *,
        environ: dict[str, str] | None = None,
        limits: Limits | None = None,
        prefix: Sequence[str] = (),
        **options: object,
    ) -> Supervisor:
        path = script if os.path.isabs(script) else str(PLUGINS / script)
        fields = {"script": path, "broker": f"ipc://{folder}/broker.sock", **options}
        supervisor = Supervisor(
            msgspec.convert(fields, WorkerOptions),
            folder / f"supervisor{len(started)}.log",
            environ or {},
            limits or Limits(),
            list(prefix),
        )
        started.append(supervisor)
        return supervisor

    yield start_one
    for supervisor in started:
        supervisor.end()
