"""One worker process as its supervisor sees it: started, watched through descriptors, ended.

Starts fresh interpreters, never forks: a copied process would inherit threads and sockets that do
not survive it. Decides nothing about when.
"""

import contextlib
import os
import select
import signal
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from broker.wire import log
from broker.wire.messages import WorkerHealth
from workers import mark
from workers.cores import BLAS_SPIN
from workers.devices import Device
from workers.heap import MALLOC_TUNABLES
from workers.prints import Prints, make_pipe
from workers.task import Failed, StatusReader, Task, Worn, encode_task

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_ROOT = Path(__file__).resolve().parent.parent


def environment(environ: Mapping[str, str], device: Device, omp_threads: str) -> dict[str, str]:
    """The environment of a worker process."""
    env = {**environ, **log.environment()}
    env["OMP_NUM_THREADS"] = omp_threads
    env.setdefault("OPENBLAS_THREAD_TIMEOUT", BLAS_SPIN)
    env["PYTHONUNBUFFERED"] = "1"  # what a plug-in prints is seen when it prints it
    if not any(name.startswith("MALLOC_") for name in environ):
        env.setdefault("GLIBC_TUNABLES", MALLOC_TUNABLES)
    if device.visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = device.visible
    if not _is_installed():
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), env.get("PYTHONPATH"))))
    return env


def _is_installed() -> bool:
    """Whether a fresh interpreter finds this package by itself, wherever it is started."""
    places = [*site.getsitepackages(), site.getusersitepackages()]
    return str(_ROOT) in {str(Path(place).resolve()) for place in places}


class WorkerProcess:
    """One life of a worker process. Start it from the main thread: it ends with that thread."""

    def __init__(self, task: Task, env: Mapping[str, str], now: float) -> None:
        """The descriptors of `task` are chosen here. Raises OSError."""
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            status_fd, task_status_fd = os.pipe()
            ours.callback(os.close, status_fd)
            theirs.callback(os.close, task_status_fd)
            prints_fd, output_fd = make_pipe()
            ours.callback(os.close, prints_fd)
            theirs.callback(os.close, output_fd)
            log_fd = os.dup(2)
            theirs.callback(os.close, log_fd)
            mark_fd = mark.create()
            ours.callback(os.close, mark_fd)
            task = msgspec.structs.replace(
                task, status_fd=task_status_fd, log_fd=log_fd, mark_fd=mark_fd
            )
            self._popen = subprocess.Popen(
                # -P: a folder that happens to be the current one lends no modules.
                [sys.executable, "-P", "-m", "workers", encode_task(task)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output_fd,
                stderr=output_fd,
                pass_fds=(task_status_fd, log_fd, mark_fd),
                process_group=0,
            )
            ours.pop_all()
        self.index = task.index
        self.version = task.options.version
        self.stage = task.options.stage
        """What it serves; "" until it has said so."""
        self.identity = bytes.fromhex(task.identity)
        self.pid = self._popen.pid
        self.cpu_s = 0.0
        self.rss_bytes = 0
        """These two as of the last look at its health."""
        self.pidfd = os.pidfd_open(self.pid)
        self.status = StatusReader(status_fd)
        self.prints = Prints(prints_fd, now)
        self._mark_fd = mark_fd
        self.importing_since: float | None = now
        self.warm_since: float | None = None
        self.is_welcome = False
        """Whether a broker has taken it in as ready."""
        self.stopped_since: float | None = None
        self.released_since: float | None = None
        """Since when it has been asked to drain, for it is recycled."""
        self.closing_since: float | None = None
        """Since when it has served no longer, and tears down."""
        self.leaving_since: float | None = None
        """Since when it has had nothing more to say: all that is left to it is to exit."""
        self.leaving = ""
        """Why it is to leave, or will when its successor is ready."""
        self.killed_for = ""
        """Why its supervisor has killed it."""
        self.worn: Worn | None = None
        self.is_excused = False
        """Whether its death, when it comes, is a request's fault."""
        self.failure: Failed | None = None

    def health(self) -> tuple[WorkerHealth, str]:
        """How the operating system says it is: its health, and the letter for it. What it has used
        is known then, too.
        """
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return WorkerHealth.GONE, "no such process"
        fields = stat.rpartition(")")[2].split()
        state = fields[0]
        self.cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        self.rss_bytes = int(fields[21]) * _PAGE_BYTES
        if state in "ZXx":
            return WorkerHealth.GONE, state
        return (WorkerHealth.STOPPED if state in "Tt" else WorkerHealth.ALIVE), state

    def terminate(self) -> None:
        """Asks it to drain."""
        self.send(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it and whatever it has started, at once."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has left its group, or has none yet
            self.send(signal.SIGKILL)

    def send(self, signum: signal.Signals) -> None:
        """To this process alone; to one that has ended it is nothing."""
        with contextlib.suppress(ProcessLookupError):  # not Popen's, which may reap it unseen
            signal.pidfd_send_signal(self.pidfd, signum)

    def has_ended(self, timeout_s: float = 0.0) -> bool:
        """Whether it has, at the latest then: what its kernel does not let go of has not."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(int(timeout_s * 1000)))

    def begun(self) -> tuple[int, int]:
        """The epoch and the lease of the batch that it began last; zeros for none."""
        return mark.read(self._mark_fd)

    def reap(self) -> str:
        """Takes leave of a process that has ended: says how. Blocks until it has."""
        # As long as it is not reaped no other can bear its number.
        self.kill()
        code = self._popen.wait()
        os.close(self.pidfd)
        os.close(self._mark_fd)
        self.status.close()
        self.prints.close()
        return describe_exit(code)

    def was_ended_by(self, signum: signal.Signals) -> bool:
        """Whether this signal ended it; only once reaped."""
        return self._popen.returncode == -signum


def describe_exit(code: int) -> str:
    """A return code as subprocess gives it, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"
