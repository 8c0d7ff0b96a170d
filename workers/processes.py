"""Starts worker processes, hears what they say and how they end, and explains their deaths.

For all crews of one supervisor: what they have in common are its descriptors, and the counts of the
kernel. Whom a process belongs to, and what follows, its crew knows.
"""

import os
import signal
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from broker.wire import log
from workers.devices import Device
from workers.link import Link
from workers.oom_killer import OomKills
from workers.options import WorkerOptions
from workers.process import WorkerProcess
from workers.task import Status, Task

Listener: TypeAlias = Callable[[WorkerProcess, float], None]


class Death(Struct, frozen=True):
    """A worker has ended."""

    worker: bytes
    how: str
    out_of_memory: bool = False
    """Whether the kernel killed it for want of memory."""
    failure: str = ""
    """Why its script could not be loaded or set up."""
    begun: tuple[int, int] = (0, 0)
    """The epoch and the lease of the batch that it began last; zeros for none."""


class Processes:
    """The worker processes that live under one supervisor."""

    def __init__(self, supervisor: bytes, link: Link) -> None:
        self._supervisor = supervisor
        self._link = link
        self._by_fd: dict[int, tuple[WorkerProcess, Listener]] = {}
        self._deaths: list[Death] = []
        self.has_news = False
        """Whether the broker should hear at once how they are."""
        self._oom_kills = OomKills.here()

    def start(
        self,
        options: WorkerOptions,
        index: int,
        device: Device,
        env: Mapping[str, str],
        now: float,
        *,
        on_word: Listener,
        on_end: Listener,
    ) -> WorkerProcess | None:
        """A new process, or None where the system has no room for it.

        `on_word` is called when it has said something: call `read`; `on_end` when it has ended:
        call `bury`.
        """
        identity = b"w" + os.urandom(16)
        task = Task(
            options=options,
            index=index,
            device=device.name,
            identity=identity.hex(),
            supervisor=self._supervisor.hex(),
            supervisor_pid=os.getpid(),
            status_fd=-1,
            mark_fd=-1,
        )
        self._oom_kills.forget()
        try:
            process = WorkerProcess(task, env, now)
        except OSError as error:  # no memory, no processes: that may pass
            log.error("worker cannot be started", index=index, error=error)
            return None
        for fd, listener in (
            (process.status.fd, on_word),
            (process.pidfd, on_end),
            (process.prints.fd, self.relay),
        ):
            self._by_fd[fd] = (process, listener)
            self._link.watch(fd)
        return process

    def on_readable(self, fd: int, now: float) -> None:
        """One of the watched descriptors has something."""
        if fd in self._by_fd:
            process, listener = self._by_fd[fd]
            listener(process, now)

    def read(self, process: WorkerProcess, now: float) -> list[Status]:
        """What it has said."""
        if process.leaving_since is not None:
            return []
        statuses, ended = process.status.read()
        if ended:
            process.leaving_since = now
            self._unwatch(process.status.fd)
        return statuses

    def bury(self, process: WorkerProcess, now: float) -> Death:
        """Takes leave of one that has ended; blocks until it has."""
        for fd in (process.pidfd, process.status.fd, process.prints.fd):
            self._unwatch(fd)
        _log_prints(process, *process.prints.rest(now))
        begun = process.begun()
        death = msgspec.structs.replace(self._explain(process), begun=begun)
        self._deaths.append(death)
        return death

    def relay(self, process: WorkerProcess, now: float) -> None:
        """It has printed something; or some time has passed, since it has printed too much."""
        if process.prints.fd not in self._by_fd:
            return
        lines, dropped, has_ended = process.prints.read(now)
        _log_prints(process, lines, dropped)
        if has_ended:
            self._unwatch(process.prints.fd)

    def take_deaths(self) -> list[Death]:
        """Who has died since the last call, and how."""
        deaths, self._deaths = self._deaths, []
        return deaths

    def _explain(self, process: WorkerProcess) -> Death:
        how = process.reap()
        if process.failure is not None:
            which = f"version {process.version}: " if process.version else ""
            return Death(process.identity, how, failure=which + process.failure.message)
        if process.was_ended_by(signal.SIGKILL):
            if process.killed_for:
                return Death(process.identity, f"{how}: {process.killed_for}")
            if self._oom_kills.explain():
                how = "killed by the kernel for want of memory"
                return Death(process.identity, how, out_of_memory=True)
        return Death(process.identity, how)

    def _unwatch(self, fd: int) -> None:
        if self._by_fd.pop(fd, None) is not None:
            self._link.forget(fd)


def _log_prints(process: WorkerProcess, lines: list[str], dropped: int) -> None:
    """What a worker has printed goes to the log under its name."""
    who: dict[str, str | int] = {
        "role": "worker",
        "stage": process.stage or "?",
        "index": process.index,
    }
    if process.version:
        who["version"] = process.version
    for line in lines:
        log.relay(line, **who, pid=process.pid)
    if dropped:
        log.warning("too much is printed", index=process.index, lines_dropped=dropped)
