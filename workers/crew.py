"""The workers of one version under one supervisor: who has to be started, ended or replaced.

Knows processes; what the broker is told about them is the supervisor's.
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from broker.wire import log
from broker.wire.messages import TendKind, WorkerHealth, WorkerReport
from workers.devices import Device
from workers.options import WorkerOptions
from workers.post import Post
from workers.process import WorkerProcess
from workers.processes import Death, Processes
from workers.rotation import Rotation, Turn
from workers.task import (
    Closing,
    Failed,
    Imported,
    RefusedByBroker,
    Status,
    Warm,
    Welcomed,
    Worn,
)
from workers.verdict import Verdict

STOPPED_S = 5.0
"""A worker stopped by a signal for so long will hardly be continued. (A debugger may take its
time.)"""
IMPORT_S = 600.0
"""How long the import of a script may take. (How long setup may, the broker sees to: it knows of a
worker from then on.)"""
TEARDOWN_S = 10.0
"""How long `teardown` may take, where nobody waits for this supervisor's end."""
EXIT_S = 2.0
"""How long a worker that has closed its pipe may take to exit; threads of a plug-in can hold it."""
RELEASED_S = 600.0
"""How long one that is recycled or retired may take to drain: `forward` may be long, or deaf to
SIGTERM."""
_DYING_S = 0.1
"""A process that dies is a zombie while its threads die, too."""
_KILLED_S = 0.3
"""A process that does not end so soon after SIGKILL waits for a device or a file system."""


RECYCLED = "recycled"


class CrewFigures(Struct, frozen=True):
    """Of one crew. `starts` by why there was one, the lists by place."""

    stage: str
    version: str
    starts: dict[str, int]
    states: dict[str, int]
    cpu_s: list[float]
    rss_bytes: list[int]


class Crew:
    """Keeps one process at each post."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        devices: list[Device],
        environments: list[dict[str, str]],
        processes: Processes,
        verdict: Verdict,
    ) -> None:
        self.stage = options.stage
        """What they serve; "" until one of them knows."""
        self.version = options.version
        self.verdict = verdict
        self._options = options
        self._processes = processes
        self._posts = [
            Post(index, device, env)
            for index, (device, env) in enumerate(zip(devices, environments, strict=True))
        ]
        self._rotation = Rotation(options.max_age_s)
        self._is_ending = False
        self._starts: Counter[str] = Counter()
        self._names = {"version": options.version} if options.version else {}

    @property
    def living(self) -> list[WorkerProcess]:
        """Those that have not been reaped."""
        return [process for post in self._posts for process in post.living]

    @property
    def warm(self) -> int:
        """How many posts have a worker that has got through setup and warm-up."""
        return sum(post.is_warm for post in self._posts)

    @property
    def is_up(self) -> bool:
        """Whether some are warm, and nobody is waited for but those who have failed before."""
        return self.warm > 0 and all(
            post.is_warm or post.was_lost or post.is_held for post in self._posts
        )

    def figures(self) -> CrewFigures:
        """For metrics: what has become of its processes, and what they take."""
        living = self.living
        leaving = sum(each.released_since is not None for each in living)
        warm = sum(each.warm_since is not None and each.released_since is None for each in living)
        return CrewFigures(
            stage=self.stage,
            version=self.version,
            starts=dict(self._starts),
            states={"loading": len(living) - warm - leaving, "warm": warm, "leaving": leaving},
            cpu_s=[post.cpu_s + sum(each.cpu_s for each in post.living) for post in self._posts],
            rss_bytes=[sum(each.rss_bytes for each in post.living) for post in self._posts],
        )

    # -------------------------------------------------------------- starting

    def restart_due(self, now: float) -> None:
        """Starts whoever is missing and has waited long enough."""
        if self._is_ending:
            return
        for post in self._posts:
            if post.process is None and not post.is_held and now >= post.backoff.start_at:
                post.process = self._start(post, post.ended_by, now)
                if post.process is None:
                    post.backoff.no_start(now)

    def next_due(self) -> float:
        """When `restart_due` will next have something to do."""
        if self._is_ending:
            return float("inf")
        missing = (
            post.backoff.start_at
            for post in self._posts
            if post.process is None and not post.is_held
        )
        return min(missing, default=float("inf"))

    def _start(self, post: Post, why: str, now: float) -> WorkerProcess | None:
        """A new process for a post, or None where the system has no room for it."""
        process = self._processes.start(
            self._options,
            post.index,
            post.device,
            post.env,
            now,
            on_word=partial(self._listen, post),
            on_end=partial(self._bury, post),
        )
        if process is not None:
            self._starts[why] += 1
            log.info("worker started", index=post.index, worker_pid=process.pid, **self._names)
        return process

    # -------------------------------------------------------------- recycling

    def rotate(self, now: float) -> None:
        """Recycles a worker that has served its time, one post after the other."""
        if self._is_ending:
            return
        turn = self._rotation.begin(self._wanted_turns(now), now)
        if turn is None:
            return
        post = self._posts[turn.index]
        log.info("worker is recycled", index=post.index, reason=turn.reason)
        if post.process is not None:
            post.process.leaving = turn.reason
            self._processes.has_news = True
        if turn.drains_first and post.process is not None:
            self._release(post.process, now)
            return
        post.successor = self._start(post, RECYCLED, now)
        if post.successor is None:
            self._rotation_failed(post, now)

    def _wanted_turns(self, now: float) -> Iterator[Turn]:
        for post in self._posts:
            process = post.process
            if process is None or process.warm_since is None or not post.is_settled:
                continue
            if process.worn is not None:
                yield Turn(post.index, process.worn.reason, process.worn.drains_first)
            elif (turn := self._rotation.too_old(post.index, now - process.warm_since)) is not None:
                yield turn

    def _release(self, process: WorkerProcess, now: float) -> None:
        process.released_since = now
        process.terminate()

    def _take_over(self, post: Post, now: float) -> None:
        """A successor is ready and known to a broker: nothing is lost if the other goes."""
        relieved = post.promote()
        if relieved is not None:
            self._release(relieved, now)

    def _rotation_failed(self, post: Post, now: float) -> None:
        retry_s = self._rotation.failed(now)
        if post.process is not None:
            post.process.leaving = ""
        log.warning("no successor got ready, the worker stays", index=post.index, retry_s=retry_s)

    def _note_turn(self, post: Post, now: float) -> None:
        turn = self._rotation.turn
        is_over = post.is_settled or (post.is_held and not post.living)
        if turn is not None and turn.index == post.index and is_over:
            self._rotation.done(now)

    # -------------------------------------------------------------- listening

    def listen(self, now: float) -> None:
        """Takes in all that its workers have said so far."""
        for post in self._posts:
            for process in post.living:
                self._listen(post, process, now)

    def _listen(self, post: Post, process: WorkerProcess, now: float) -> None:
        for status in self._processes.read(process, now):
            self._learn(post, process, status, now)

    def _learn(self, post: Post, process: WorkerProcess, status: Status, now: float) -> None:
        if type(status) is Imported:
            process.importing_since = None
            self.stage = self.stage or status.stage
            process.stage = status.stage
            log.configure(role="supervisor", stage=self.stage)
        elif type(status) is Warm:
            process.warm_since = now
            self.verdict.warm()
        elif type(status) is Welcomed:
            process.is_welcome = True
            self.verdict.welcomed()
            if process is post.successor and not self._is_ending:
                self._take_over(post, now)
            self._note_turn(post, now)
        elif type(status) is RefusedByBroker:
            log.error("worker refused by the broker", index=process.index, reason=status.reason)
            self.listen(now)  # others may have said before that they were welcome
            self.verdict.refused(status.reason)
            if process is post.successor:
                self._kill(process, "the broker refuses it")
        elif type(status) is Failed:
            process.failure = status
            if self.verdict.was_warm:
                log.error(
                    "worker failed", index=process.index, error=status.message, trace=status.trace
                )
            self.verdict.failed(process.index, status)
        elif type(status) is Worn:
            process.worn = status
        elif type(status) is Closing:
            process.closing_since = now

    def _bury(self, post: Post, process: WorkerProcess, now: float) -> None:
        self._listen(post, process, now)  # its last words come before its end
        death = self._processes.bury(process, now)
        post.cpu_s += process.cpu_s
        post.ended_by = _what_ended(process, death)
        is_wanted = self._is_ending or process.released_since is not None
        note = log.info if is_wanted else log.warning
        why = death.how if process.failure is None else "it could not start"  # then we killed it
        note("worker ended", index=process.index, worker_pid=process.pid, how=why, **self._names)
        if process.failure is None and not process.was_ended_by(signal.SIGTERM):
            self.verdict.died(process.index, death.how)
        if process is post.successor:
            post.successor = None
            if not self._is_ending:
                self._rotation_failed(post, now)
        elif process is post.leaving:
            post.leaving = None
        else:
            post.vacate(process, now)
        self._note_turn(post, now)

    # -------------------------------------------------------------- looking after

    def report(self, now: float) -> list[WorkerReport]:
        """How each living worker is, by the operating system. Ends those that are past help."""
        reports = []
        for post in self._posts:
            for process in post.living:
                health, detail = process.health()
                if health is WorkerHealth.GONE:
                    if process.has_ended(_DYING_S):
                        self._bury(post, process, now)  # the broker first hears how it died
                        continue
                    self._kill(process, "its main thread has ended")
                self._look_after(process, detail, now)
                self._processes.relay(process, now)
                is_warm = process.warm_since is not None
                reports.append(
                    WorkerReport(
                        process.identity,
                        health,
                        detail,
                        warm=is_warm,
                        cpu_s=process.cpu_s,
                        rss_bytes=process.rss_bytes,
                        leaving=process.leaving,
                    )
                )
        return reports

    def _look_after(self, process: WorkerProcess, state: str, now: float) -> None:
        if state != "T":  # t: a debugger has it
            process.stopped_since = None
        elif process.stopped_since is None:
            process.stopped_since = now
        for since, limit_s, reason in (
            (process.importing_since, IMPORT_S, "does not get its script imported"),
            (process.stopped_since, STOPPED_S, "stopped by a signal"),
            (process.released_since, RELEASED_S, "does not drain"),
            (process.closing_since, TEARDOWN_S, "does not end its teardown"),
            (process.leaving_since, EXIT_S, "does not exit"),
        ):
            if since is not None and now - since > limit_s:
                self._kill(process, f"{reason} for {limit_s:g} s")

    def kill(self, worker: bytes, reason: str) -> None:
        """Ends one at the broker's wish; it is replaced like any that dies."""
        for process in self.living:
            if process.identity == worker:
                self._kill(process, reason)

    def excuse(self, worker: bytes, now: float) -> None:
        """The broker knows that a request killed this one: its successor need not wait for that."""
        for post in self._posts:
            if post.excuse(worker, now):
                log.info("worker's death excused", index=post.index)
                return

    def tend(self, index: int, wish: TendKind, reason: str, now: float) -> None:
        """What an operator wants of a post: that its worker leaves, or has a successor."""
        if self._is_ending or not 0 <= index < len(self._posts):
            return
        post = self._posts[index]
        log.info("worker is tended", index=index, wish=wish.name.lower(), reason=reason)
        post.is_held = wish is TendKind.DRAIN
        if wish is TendKind.DRAIN:
            for each in (post.process, post.successor):
                if each is not None and each.released_since is None:
                    each.leaving = reason
                    self._release(each, now)
        elif post.process is None:
            post.backoff.start_at = now
        elif post.process.warm_since is None:
            self._kill(post.process, reason)
        elif post.process.released_since is None:
            post.process.worn = Worn(reason, drains_first=False)

    def begin_anew(self, now: float) -> None:
        """Another broker knows of no drained posts: they are filled again."""
        for post in self._posts:
            if post.is_held:
                post.is_held = False
                post.backoff.start_at = now

    def retire(self, now: float) -> None:
        """Asks all to drain, for another version has taken their place; nobody is replaced."""
        self._is_ending = True
        for process in self.living:
            if process.released_since is None:
                self._release(process, now)

    def terminate_all(self) -> None:
        """Asks all to drain; nobody is replaced any longer."""
        self._is_ending = True
        for process in self.living:
            if process.released_since is None:  # a second signal would end it at once
                process.terminate()

    def end(self, reason: str) -> None:
        """Ends all at once; nobody is replaced any longer."""
        self._is_ending = True
        for process in self.living:
            self._kill(process, reason)

    def kill_all(self) -> None:
        """Ends whoever is left, and waits for it, but not for one that the kernel holds on to."""
        self._is_ending = True
        for process in self.living:
            process.killed_for = process.killed_for or "the supervisor ends"
            process.kill()
        for post in self._posts:
            for process in post.living:
                if process.has_ended(_KILLED_S):
                    self._bury(post, process, time.monotonic())
                else:
                    log.error("worker cannot be killed", worker_pid=process.pid)

    def _kill(self, process: WorkerProcess, reason: str) -> None:
        if process.killed_for:
            return
        log.warning("worker killed", index=process.index, worker_pid=process.pid, reason=reason)
        process.killed_for = reason
        process.kill()


def _what_ended(process: WorkerProcess, death: Death) -> str:
    """In a word, as metrics have it."""
    if process.failure is not None:
        return "failed"
    if death.out_of_memory:
        return "out_of_memory"
    if process.killed_for:
        return "killed"
    return RECYCLED if process.released_since is not None else "died"
