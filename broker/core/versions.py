"""What is known of a pipeline's versions: who serves each, who has it on disk, and which are ready.

Worked out anew whenever a worker or a supervisor changes. A stage that any worker named a version
in has versions, and a version is ready when each such stage has a ready worker of it; the stages
without versions serve all. What follows for the requests is decided in `rollout.py`.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.core.events import Change
from broker.core.item import DEFAULT_VERSION
from broker.core.states import WorkerState
from broker.core.traffic import Traffic
from broker.wire.messages import VersionReport, VersionState

if TYPE_CHECKING:
    from broker.core.peers import Supervisor, Worker
    from broker.core.stage import Stage

READY = "ready"
LEAVING = "leaving"  # workers that drain still serve it, and no others
LOADING = "loading"
RETIRING = "retiring"
FAILED = "failed"
FOUND = "found"
GONE = "gone"  # it is named somewhere, and nobody has it

REPORTED = {
    VersionState.LOADING: LOADING,
    VersionState.RETIRING: RETIRING,
    VersionState.READY: LOADING,  # another stage lacks it
    VersionState.FAILED: FAILED,
    VersionState.FOUND: FOUND,
}
"""What the report of a supervisor makes of a version that is not served; the earlier ones first."""


class Version:
    """One version of a pipeline, as far as its workers and supervisors tell."""

    __slots__ = (
        "absent", "attended", "attended_at", "detail", "is_up", "name", "ready_workers", "state",
        "was_ready", "workers",
    )  # fmt: skip

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.state = GONE
        self.detail = ""
        self.workers = 0  # of it, in all stages with versions
        self.ready_workers = 0
        self.attended = False  # whether each of these stages has a worker of it, or will have
        self.attended_at = now  # when that was so last
        self.absent = False  # it is not attended for `absent_s`
        self.is_up = False  # it is ready, and no supervisor goes on loading it
        self.was_ready = False  # in this life of the broker


class Pending:
    """A change of the traffic that waits for versions to become ready. It takes the place of any
    other of its pipeline.
    """

    __slots__ = ("asker", "change", "doubtful", "make", "since", "waits_for")

    def __init__(
        self,
        make: Callable[[Traffic], Traffic],
        change: Change,
        *,
        asker: bytes,
        waits_for: set[str],
        now: float,
    ) -> None:
        self.make = make
        self.change = change
        self.asker = asker
        self.waits_for = waits_for
        self.since = now
        self.doubtful: set[str] = set()  # failed before they were wanted: they are tried again


class Rollout:
    """One pipeline's traffic, and what of it can be had now."""

    __slots__ = (
        "absent", "askable", "awaited", "changed", "changed_at", "needed", "pending", "ready",
        "saves", "served", "settled", "shown", "stepped_at", "traffic", "versions",
    )  # fmt: skip

    def __init__(self, traffic: Traffic, now: float) -> None:
        self.traffic = traffic
        self.versions: dict[str, Version] = {name: Version(name, now) for name in traffic.named()}
        self.ready: set[str] = set()
        self.served: set[str] = set()  # those that workers which drain serve still, too
        self.askable: set[str] = set()  # may be asked for by name: it is there, or soon again
        self.absent: set[str] = set()  # nobody serves it, or is about to, for `absent_s`
        # Had a share when the broker began, and were not back since: requests wait for them.
        self.awaited: set[str] = set(traffic.weights)
        self.needed: set[str] = set()  # not served, and requests that were begun wait for them
        self.pending: Pending | None = None
        self.changed: Change | None = None  # the latest change in this life of the broker
        self.changed_at = now
        elapsed_s = traffic.promotion.elapsed_s if traffic.promotion is not None else 0.0
        self.stepped_at = now - elapsed_s  # when the step of a promotion began
        self.saves: list[tuple[Change, bytes]] = []  # changes that were made, and who asked
        self.settled: tuple[int, frozenset[str]] = (0, frozenset())  # what items were sorted by
        self.shown: object = None  # what gateways were told last

    def wanted(self) -> set[str]:
        """The versions that supervisors are to load, whatever their policy."""
        named = self.traffic.named() | self.needed
        return named if self.pending is None else named | self.pending.waits_for

    def up(self) -> set[str]:
        """The versions that are ready, and that no supervisor goes on loading."""
        return {name for name in self.ready if self.versions[name].is_up}

    def forgive(self, gap_s: float, now: float) -> None:
        """The broker itself stood still for so long."""
        self.stepped_at += gap_s
        for version in self.versions.values():
            version.attended_at = min(version.attended_at + gap_s, now)
        if self.pending is not None:
            self.pending.since += gap_s


class _Seen:
    """What was seen of one version: in which stages it has workers of which kind, and reports."""

    __slots__ = ("attended", "ready", "ready_workers", "reports", "served", "workers")

    def __init__(self) -> None:
        self.workers = 0
        self.ready_workers = 0
        self.attended: set[Stage] = set()
        self.served: set[Stage] = set()
        self.ready: set[Stage] = set()
        self.reports: list[VersionReport] = []

    def see(self, stage: "Stage", worker: "Worker") -> None:
        self.workers += 1
        self.attended.add(stage)
        if worker.serving:
            self.ready_workers += 1
            self.served.add(stage)
            if worker.state is WorkerState.READY:
                self.ready.add(stage)


def survey(
    rollout: Rollout, stages: list["Stage"], supervisors: Iterable["Supervisor"], now: float
) -> None:
    """Look at all workers and supervisors of a pipeline with these stages."""
    versioned = [stage for stage in stages if stage.versioned] or stages
    seen: dict[str, _Seen] = {}
    for stage in versioned:
        for worker in stage.workers.values():
            served = stage.version_of(worker) or DEFAULT_VERSION
            seen.setdefault(served, _Seen()).see(stage, worker)
    unknown = False
    for supervisor in supervisors:
        if supervisor.stages is None:
            unknown = True
            continue
        _hear(seen, supervisor, [stage for stage in supervisor.stages if stage in versioned])
    for name in seen:
        if name not in rollout.versions:
            rollout.versions[name] = Version(name, now)
    rollout.ready.clear()
    rollout.served.clear()
    for name, version in rollout.versions.items():
        _conclude(version, seen.get(name) or _Seen(), versioned, now, unknown=unknown)
        if version.state == READY:
            rollout.ready.add(name)
        if version.state in (READY, LEAVING):
            rollout.served.add(name)


def _hear(seen: dict[str, _Seen], supervisor: "Supervisor", stages: list["Stage"]) -> None:
    """What a supervisor of these stages has of versions."""
    if not stages:
        return
    hello = supervisor.hello
    if not hello.has_models:
        own = seen.setdefault(hello.version or DEFAULT_VERSION, _Seen())
        own.attended.update(stages)
    for report in supervisor.versions:
        sight = seen.setdefault(report.version, _Seen())
        sight.reports.append(report)
        if report.state not in (VersionState.FOUND, VersionState.FAILED):
            sight.attended.update(stages)


def _conclude(
    version: Version, seen: _Seen, stages: list["Stage"], now: float, *, unknown: bool
) -> None:
    """`unknown`: a supervisor has not said yet what it serves."""
    version.workers = seen.workers
    version.ready_workers = seen.ready_workers
    version.attended = unknown or len(seen.attended) == len(stages)
    if version.attended:
        version.attended_at = now
        version.absent = False
    version.detail = next((each.detail for each in seen.reports if each.detail), "")
    states = {each.state for each in seen.reports}
    version.is_up = len(seen.ready) == len(stages) and VersionState.LOADING not in states
    if len(seen.ready) == len(stages):
        version.state = READY
        version.was_ready = True
        return
    if len(seen.served) == len(stages):
        version.state = LEAVING
        return
    version.state = next((said for state, said in REPORTED.items() if state in states), "")
    if not version.state:
        version.state = LOADING if seen.attended else GONE
    if version.state == LOADING and not version.detail:
        lacking = [stage for stage in stages if stage not in seen.served]
        trouble = next((stage.trouble for stage in lacking if stage.trouble), "")
        names = ", ".join(stage.name for stage in lacking)
        version.detail = f"no ready worker of it at {names}" + (f"; {trouble}" if trouble else "")
