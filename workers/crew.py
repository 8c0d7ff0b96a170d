"""The worker processes of one supervisor: who lives, who has to be started, ended or replaced.

Knows processes and pipes; what the broker is told about them is the supervisor's.
"""

import os
import secrets
import time

from msgspec import Struct

from broker.wire import log
from broker.wire.messages import WorkerReport
from workers.backoff import Backoff
from workers.devices import Device
from workers.link import Link
from workers.options import WorkerOptions
from workers.process import WorkerProcess
from workers.task import Failed, Imported, RefusedByBroker, Status, Task, Warm, Welcomed
from workers.verdict import Verdict

STOPPED_S = 5.0
"""A worker stopped by a signal for so long will hardly be continued. (A debugger may take its
time.)"""
EXIT_S = 2.0
"""How long a worker that has closed its pipe may take to exit; threads of a plug-in can hold it."""


class _Post(Struct):
    """One of the crew's places: who fills it, or when somebody should again."""

    index: int
    device: Device
    env: dict[str, str]
    backoff: Backoff
    process: WorkerProcess | None = None
    start_at: float = 0.0


class Crew:
    """Keeps one process at each post."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        supervisor: bytes,
        devices: list[Device],
        environments: list[dict[str, str]],
        link: Link,
        verdict: Verdict,
    ) -> None:
        self.stage = options.stage
        """What they serve; "" until one of them knows."""
        self._options = options
        self._supervisor = supervisor
        self._link = link
        self._verdict = verdict
        self._posts = [
            _Post(index, device, env, Backoff())
            for index, (device, env) in enumerate(zip(devices, environments, strict=True))
        ]
        self._by_fd: dict[int, _Post] = {}
        self._deaths: list[tuple[bytes, str]] = []
        self._is_ending = False

    @property
    def living(self) -> list[WorkerProcess]:
        """Those that have not been reaped."""
        return [post.process for post in self._posts if post.process is not None]

    def device_names(self) -> list[str]:
        """What each process will see, for the log."""
        return [
            f"{post.device.name}={post.device.visible}" if post.device.visible else post.device.name
            for post in self._posts
        ]

    # -------------------------------------------------------------- starting

    def restart_due(self, now: float) -> None:
        """Starts whoever is missing and has waited long enough."""
        for post in self._posts:
            if post.process is None and now >= post.start_at:
                self._start(post, now)

    def next_due(self) -> float:
        """When `restart_due` will next have something to do."""
        return min(
            (post.start_at for post in self._posts if post.process is None), default=float("inf")
        )

    def _start(self, post: _Post, now: float) -> None:
        identity = b"w" + secrets.token_bytes(16)
        task = Task(
            options=self._options,
            index=post.index,
            device=post.device.name,
            identity=identity.hex(),
            supervisor=self._supervisor.hex(),
            supervisor_pid=os.getpid(),
            status_fd=-1,
        )
        try:
            process = WorkerProcess(task, post.env, now)
        except OSError as error:  # no memory, no processes: that may pass
            post.start_at = now + post.backoff.after_death(0.0)
            log.error("worker cannot be started", index=post.index, error=error)
            return
        post.process = process
        for fd in (process.pidfd, process.status.fd):
            self._by_fd[fd] = post
            self._link.watch(fd)
        log.info("worker started", index=post.index, worker_pid=process.pid)

    # -------------------------------------------------------------- listening

    def on_readable(self, fd: int, now: float) -> None:
        """One of the watched descriptors has something: a worker said something, or has ended."""
        post = self._by_fd.get(fd)
        if post is None or post.process is None:
            return
        process = post.process
        if fd == process.status.fd:
            self._listen(process, now)
        else:
            self._listen(process, now)  # its last words come before its end
            self._bury(post, process, now)

    def take_deaths(self) -> list[tuple[bytes, str]]:
        """Who has died since the last call, and how."""
        deaths, self._deaths = self._deaths, []
        return deaths

    def _listen(self, process: WorkerProcess, now: float) -> None:
        if process.leaving_since is not None:
            return
        statuses, ended = process.status.read()
        for status in statuses:
            self._learn(process, status, now)
        if ended:
            process.leaving_since = now
            self._unwatch(process.status.fd)

    def _learn(self, process: WorkerProcess, status: Status, now: float) -> None:
        if type(status) is Imported:
            self.stage = self.stage or status.stage
            log.configure(role="supervisor", stage=self.stage)
        elif type(status) is Warm:
            process.warm_since = now
            self._verdict.warm()
        elif type(status) is Welcomed:
            self._verdict.welcomed()
        elif type(status) is RefusedByBroker:
            log.error("worker refused by the broker", index=process.index, reason=status.reason)
            self._verdict.refused(status.reason)
        elif type(status) is Failed:
            process.failure = status
            if self._verdict.was_warm:
                log.error(
                    "worker failed", index=process.index, error=status.message, trace=status.trace
                )
            self._verdict.failed(process.index, status)

    def _bury(self, post: _Post, process: WorkerProcess, now: float) -> None:
        for fd in (process.pidfd, process.status.fd):
            self._unwatch(fd)
        how = process.reap()
        post.process = None
        ready_s = now - process.warm_since if process.warm_since is not None else 0.0
        delay_s = post.backoff.after_death(ready_s)
        post.start_at = now + delay_s
        self._deaths.append((process.identity, how))
        note = log.info if self._is_ending else log.warning
        why = how if process.failure is None else "it could not start"  # then we have killed it
        note("worker ended", index=process.index, worker_pid=process.pid, how=why)
        if process.failure is None and not process.was_terminated():
            self._verdict.died(process.index, how)

    def _unwatch(self, fd: int) -> None:
        if self._by_fd.pop(fd, None) is not None:
            self._link.forget(fd)

    # -------------------------------------------------------------- looking after

    def report(self, now: float) -> list[WorkerReport]:
        """How each living worker is, by the operating system. Ends those that are past help."""
        reports = []
        for process in self.living:
            health, detail = process.health()
            self._look_after(process, detail, now)
            is_warm = process.warm_since is not None
            reports.append(WorkerReport(process.identity, health, detail, warm=is_warm))
        return reports

    def _look_after(self, process: WorkerProcess, state: str, now: float) -> None:
        if state != "T":  # t: a debugger has it
            process.stopped_since = None
        elif process.stopped_since is None:
            process.stopped_since = now
        elif now - process.stopped_since > STOPPED_S:
            self._kill(process, f"stopped by a signal for {STOPPED_S:g} s")
        if process.leaving_since is not None and now - process.leaving_since > EXIT_S:
            self._kill(process, "does not exit")

    def kill(self, worker: bytes, reason: str) -> None:
        """Ends one at the broker's wish; it is replaced like any that dies."""
        for process in self.living:
            if process.identity == worker:
                self._kill(process, reason)

    def terminate_all(self) -> None:
        """Asks all to drain; nobody is replaced any longer."""
        self._is_ending = True
        for process in self.living:
            process.terminate()

    def kill_hung(self) -> None:
        """Ends those that should have ended by themselves."""
        for process in self.living:
            self._kill(process, "does not end")

    def kill_all(self) -> None:
        """Ends whoever is left, and waits for it."""
        self._is_ending = True
        for post in self._posts:
            if post.process is not None:
                post.process.kill()
                self._bury(post, post.process, time.monotonic())

    def _kill(self, process: WorkerProcess, reason: str) -> None:
        log.warning("worker killed", index=process.index, worker_pid=process.pid, reason=reason)
        process.kill()
