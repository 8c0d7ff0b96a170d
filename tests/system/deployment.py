"""Starts a whole Millstream of real processes in a folder of its own, and stops it without a trace.

Knows the command line and the signals that users have, and nothing of what lies behind them:

    with Deployment(pipelines=TOML) as mill:
        mill.broker()
        mill.worker(SCRIPT, "--processes", "2")
        mill.gateway()
        mill.wait_ready()
        assert mill.client().post("/pipelines/echo", b"1").status == 200

At the end each process gets SIGTERM, and the test fails unless all of them exit 0 in time and no
process, socket or lock of this deployment is left.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

import msgspec
import psutil  # type: ignore[import-untyped]  # it ships no types

from millstream.cli.ask import ask
from millstream.cli.errors import CommandError
from tests.ports import free_port
from tests.system.client import Client

_SCRIPT = Path(sys.executable).with_name("millstream")
COMMAND = (str(_SCRIPT),) if _SCRIPT.exists() else (sys.executable, "-m", "millstream")
"""How the command is started; the console script where it is installed, as users do."""

READY_S = 60.0
"""For everything to be up, on a machine that is busy."""
STOP_S = 15.0
"""For a process to end. Honcho gives it five seconds, on a machine that is not so busy."""
MARK = "TEST_DEPLOYMENT"
"""Variable by which every process of a deployment is known, orphans included."""
POLL_S = 0.02
"""Between two looks whether something has come; longer where it takes long, for a look costs ten
milliseconds of the processor, of which those who are waited for have none to spare."""
LONGEST_POLL_S = 0.1
STATUS_S = 8.0
"""For a broker to answer, on a machine that is busy."""
SHOWN_LINES = 60

Result = TypeVar("Result")


def wait_until(condition: Callable[[], Result], within_s: float, what: str = "") -> Result:
    """Ask until the answer is true, and return it; AssertionError after so many seconds."""
    began = time.monotonic()
    while not (result := condition()):
        waited_s = time.monotonic() - began
        assert waited_s < within_s, f"not within {within_s} s: {what or condition}"
        time.sleep(min(POLL_S + waited_s / 10, LONGEST_POLL_S))
    return result


class Role:
    """One process that a deployment started: a gateway, a broker, a supervisor, honcho."""

    def __init__(self, name: str, popen: "subprocess.Popen[bytes]", log: Path) -> None:
        self.name = name
        self.popen = popen
        self.log = log
        """Its stdout and stderr, together."""
        self.expected_exit = 0

    @property
    def pid(self) -> int:
        """It leads a process group of the same number."""
        return self.popen.pid

    @property
    def output(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.popen.poll() is None

    def children(self) -> list[psutil.Process]:
        """Its own children that live: of a supervisor, the workers."""
        children: list[psutil.Process] = psutil.Process(self.pid).children()
        return children

    def send(self, signum: signal.Signals) -> None:
        """To this process alone, not to its group."""
        self.popen.send_signal(signum)

    def wait(self, within_s: float = STOP_S) -> int:
        """Its exit code, as subprocess gives it; AssertionError where it does not end in time."""
        try:
            return self.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} did not end in {within_s} s\n{self.tail()}"
            ) from None

    def stop(self, signum: signal.Signals = signal.SIGTERM, within_s: float = STOP_S) -> None:
        """Drain it; AssertionError unless it then exits as is expected of it."""
        self.send(signum)
        self.check_exit(within_s)

    def check_exit(self, within_s: float = STOP_S) -> None:
        """AssertionError unless it ends in time, as is expected of it."""
        code = self.wait(within_s)
        assert code == self.expected_exit, f"{self.name} exited {code}\n{self.tail()}"

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; nothing is expected of it then."""
        self.expected_exit = -signal.SIGKILL
        self.popen.kill()
        self.wait()

    def wait_for_output(self, text: str, within_s: float = READY_S) -> None:
        """Until it has written this."""

        def written() -> bool:
            if text in self.output:
                return True
            assert self.is_running, f"{self.name} ended without {text!r}\n{self.tail()}"
            return False

        wait_until(written, within_s, f"{self.name} writes {text!r}")

    def tail(self) -> str:
        """The end of its log, under its name."""
        lines = self.output.splitlines()[-SHOWN_LINES:]
        return "\n".join([f"----- {self.name} (pid {self.pid}, {self.popen.returncode})", *lines])


class Deployment:
    """The processes of one Millstream, and the folder they run in. A context manager."""

    open: ClassVar["list[Deployment]"] = []
    """Those whose logs may explain why a test has failed."""

    def __init__(
        self,
        *,
        pipelines: str = "",
        address: str | None = None,
        command: tuple[str, ...] = COMMAND,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`pipelines` is the text of the broker's file; `address` the broker's, else ipc in here.

        `env` is added to the environment of every process.
        """
        # Not pytest's tmp_path: the path of a socket has 107 bytes at the most.
        self.folder = Path(tempfile.mkdtemp(prefix="mill-"))
        self.runtime = self.folder / "run"
        self.runtime.mkdir(mode=0o700)
        self.address = address or f"ipc://{self.runtime}/broker.sock"
        self.port = free_port()
        self.command = command
        self.roles: list[Role] = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MILLSTREAM_")}
        self.env["MILLSTREAM_LOG_FORMAT"] = "logfmt"
        self.env |= {MARK: str(self.folder), "MILLSTREAM_BROKER": self.address, **(env or {})}
        if pipelines:
            self.write("pipelines.toml", pipelines)

    def __enter__(self) -> Self:
        self.open.append(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.open.remove(self)
        if exc is None:
            self.close()
            return
        sys.stdout.write(self.logs())  # pytest shows it below the failure
        self.kill_all()
        shutil.rmtree(self.folder)

    # ------------------------------------------------------------------ start

    def write(self, name: str, text: str) -> Path:
        """A file in the folder, which is every process's current one."""
        path = self.folder / name
        path.write_text(text)
        return path

    def start(self, *argv: str, name: str = "", env: Mapping[str, str] | None = None) -> Role:
        """`millstream ARGV…` as a process of its own."""
        return self.spawn([*self.command, *argv], name=name or argv[0], env=env)

    def spawn(
        self,
        argv: list[str],
        *,
        name: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Role:
        """Any program, watched and stopped like the others."""
        same = sum(role.name.split("-")[0] == name for role in self.roles)
        name = f"{name}-{same + 1}" if same else name
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                argv,
                cwd=cwd or self.folder,
                env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        role = Role(name, popen, log)
        self.roles.append(role)
        return role

    def broker(self, *options: str) -> Role:
        """A broker for `pipelines`."""
        return self.start("broker", str(self.folder / "pipelines.toml"), *options)

    def worker(
        self, script: Path | str, *options: str, env: Mapping[str, str] | None = None
    ) -> Role:
        """A supervisor with its workers; `script` may end in `:Class`."""
        return self.start("worker", str(script), *options, env=env)

    def gateway(self, *options: str, port: int | None = None) -> Role:
        """A gateway at `port`; the deployment's own where None."""
        return self.start("gateway", "--port", str(port or self.port), *options)

    def run(self, *argv: str, within_s: float = 40.0) -> "subprocess.CompletedProcess[str]":
        """`millstream ARGV…` to its end, for commands that end by themselves."""
        return subprocess.run(
            [*self.command, *argv],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )

    # ------------------------------------------------------------------ look

    def client(self, *, port: int | None = None, timeout_s: float = 20.0) -> Client:
        """An HTTP client with a connection of its own."""
        return Client(port or self.port, timeout_s=timeout_s)

    def status(self) -> dict[str, Any]:
        """What `millstream status --json` shows; CommandError where no broker answers."""
        report: dict[str, Any] = msgspec.json.decode(
            ask(self.address, "status", keys=None, timeout_s=STATUS_S)
        )
        return report

    def workers(self, state: str = "ready") -> list[dict[str, Any]]:
        """The workers in this state, as the broker sees them; none where there is no broker."""
        try:
            workers: list[dict[str, Any]] = self.status()["workers"]
        except CommandError:
            return []
        return [worker for worker in workers if worker["state"] == state]

    def wait_ready(self, within_s: float = READY_S, *, port: int | None = None) -> None:
        """Until /readyz says 200; AssertionError at once where a process has ended."""

        def ready() -> bool:
            for role in self.roles:
                if not role.is_running and role.popen.returncode != role.expected_exit:
                    raise AssertionError(f"{role.name} has ended\n{self.logs()}")
            try:
                with self.client(port=port, timeout_s=2.0) as client:
                    return client.get("/readyz").status == 200
            except OSError:
                return False

        wait_until(ready, within_s, "GET /readyz says 200")

    def wait_workers(self, count: int, within_s: float = READY_S) -> None:
        """Until the broker knows just so many ready workers."""
        wait_until(lambda: len(self.workers()) == count, within_s, f"{count} ready workers")

    def processes(self) -> list[psutil.Process]:
        """Every process of this deployment that lives, whoever its parent is by now."""
        ours = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get(MARK) == str(self.folder)
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    ours.append(process)
            except (psutil.Error, OSError):
                continue
        return ours

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(role.tail() for role in self.roles) + "\n"

    # ------------------------------------------------------------------ stop

    def close(self) -> None:
        """SIGTERM to all together, as honcho does; AssertionError where something goes wrong."""
        try:
            for role in self.roles:
                if role.is_running:
                    role.send(signal.SIGTERM)
            for role in self.roles:
                role.check_exit()
            wait_until(lambda: not self.processes(), STOP_S, f"no process left: {self.processes()}")
            if not any(role.expected_exit == -signal.SIGKILL for role in self.roles):
                left = sorted(path.name for path in self.runtime.iterdir())
                assert not left, f"left in the runtime folder: {left}"
        except AssertionError:
            sys.stdout.write(self.logs())
            raise
        finally:
            self.kill_all()
            shutil.rmtree(self.folder)

    def kill_all(self) -> None:
        """SIGKILL to whatever is left of this deployment, and to nothing else."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        for role in self.roles:
            role.wait()
