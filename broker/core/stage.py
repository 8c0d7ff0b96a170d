"""Pipelines, their stages, and the lanes of a stage: records, and what follows from them."""

from collections import Counter, deque
from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from broker.core.agreement import Agreements
from broker.core.blame import Deaths
from broker.core.config import PipelineConfig
from broker.core.drift import Drift
from broker.core.estimate import BatchTime
from broker.core.figures import Figures, promoted
from broker.core.item import DEFAULT_VERSION, Item
from broker.core.lately import Lately, Losses
from broker.core.measures import Flow, Measures
from broker.core.plugin_metrics import Counted, SeriesKey
from broker.core.queue import StageQueue
from broker.core.recent import Recent
from broker.core.states import ItemState
from broker.core.tally import Tally
from broker.core.traffic import Split, Traffic, age_key
from broker.core.versions import Rollout
from broker.core.watch import Watches
from broker.core.way import Way

if TYPE_CHECKING:
    from broker.core.forecast import Forecast
    from broker.core.mirror import Mirror
    from broker.core.peers import Post, Worker

UNMEASURED_ROOM = 64
"""Bound of the queue of a stage that never had a worker to measure it by."""

GROWTH_FADES = 6
"""A result smaller than expected lowers the expectation by this power of two of the difference."""

GUESSED_GROWTH = 64
LARGE_BYTES = 16 << 10
"""Before a stage has made anything of bodies as large as the second, a result is taken to be so
many times as large as its body: an image is unpacked to 10 to 100 times its size."""


class Lane:
    """The waiting items of a stage that are for one version, and what befell its workers. A stage
    without versions has one lane, "". In one that has versions those wait in it that were given
    none yet, and nobody takes them.
    """

    __slots__ = (
        "deaths", "held_since", "queue", "replaced_by", "stage", "suspect_was_last", "suspects",
        "suspects_out", "version",
    )  # fmt: skip

    def __init__(self, stage: "Stage", version: str) -> None:
        self.stage = stage
        self.version = version
        self.queue = StageQueue()
        self.suspects: deque[Item] = deque()
        self.suspect_was_last = False  # what was sent last was a suspect
        self.suspects_out = 0  # leases with a suspect
        self.deaths = Deaths()
        self.held_since = 0.0  # when a batch began to be held back; 0: none is
        self.replaced_by = -inf  # when whoever was lost beside others may be there again

    @property
    def waiting(self) -> int:
        return self.queue.live + len(self.suspects)

    def leased(self) -> int:
        """Living items that workers of its version hold, or a few more."""
        stage = self.stage
        if not stage.versioned:
            return stage.leased
        return sum(
            lease.size
            for worker in stage.workers.values()
            if self.suits(worker)
            for lease in worker.leases.values()
            if lease.stage is stage
        )

    def suits(self, worker: "Worker") -> bool:
        """Whether a worker of this stage may take its items."""
        stage = self.stage
        return not stage.versioned or self.version == (worker.version or DEFAULT_VERSION)


class BatchCap:
    """Most items that a post is sent at once, since more of them did not fit into its memory."""

    __slots__ = ("due", "full", "most", "wait_s")

    def __init__(self, most: int, *, full: int, wait_s: float, due: float) -> None:
        self.most = most
        self.full = full  # without the cap
        self.wait_s = wait_s
        self.due = due  # when it is raised, or forgotten


class Stage:
    """One step of a pipeline: its queue, its workers, and what was learnt about it."""

    __slots__ = (
        "absent", "attended_at", "caps", "config", "done", "estimates", "failed", "first", "flow",
        "forked", "growth", "idle", "index", "lack", "lanes", "last", "leased", "losses",
        "measures", "name", "observed", "parts", "pipeline", "plugin_series", "queued",
        "repeatable", "room", "spare", "streaming", "trouble", "versioned", "way", "workers",
    )  # fmt: skip

    def __init__(self, pipeline: "Pipeline", index: int, name: str, now: float) -> None:
        self.pipeline = pipeline
        self.index = index
        self.name = name
        self.first = index == 0
        self.last = index == len(pipeline.config.chain) - 1
        self.forked: list[Item] | None = None  # came in this turn, and are to be copied
        self.config = pipeline.config.stage(name)
        self.lanes: dict[str, Lane] = {"": Lane(self, "")}
        self.versioned = False  # whether a worker ever named a version here
        self.repeatable = True  # whether its workers may run an item twice
        self.workers: dict[bytes, Worker] = {}
        self.idle: dict[Worker, None] = {}  # would begin at once; longest idle first
        self.spare: dict[Worker, None] = {}  # busy, and have credit left
        self.queued = 0  # living items that wait here, suspects included
        self.leased = 0  # living items that workers of this stage hold
        self.streaming = 0  # living items that they answer value by value
        self.caps: dict[Post, BatchCap] = {}  # of posts that ran out of memory
        self.estimates: dict[str, BatchTime] = {}
        self.way = Way()
        self.growth = 0  # bytes of its results, each: about the most that there was lately
        self.room = UNMEASURED_ROOM
        self.parts: dict[str, int] = {}  # of that room, by version
        self.lack = ""  # a version that requests wait for, and that nobody here is ready to serve
        self.losses = Losses()  # its workers that were lost
        self.trouble = ""  # why its latest worker could not be set up
        self.attended_at = now  # when a supervisor of it was last known
        self.absent = False
        self.done = 0
        self.failed = 0
        self.flow = Flow()
        self.measures: Measures | None = Measures()
        self.observed: dict[tuple[str, str], Drift] = {}  # by version and name
        self.plugin_series: dict[SeriesKey, Counted] = {}  # of its plug-ins' own metrics

    @property
    def following(self) -> "Stage":
        """The next stage of the chain; not to be asked of the last."""
        return self.pipeline.stages[self.index + 1]

    def lane(self, version: str) -> Lane:
        """Where an item of this version waits: with all, in a stage without versions."""
        if not self.versioned:
            version = ""
        lane = self.lanes.get(version)
        if lane is None:
            lane = self.lanes[version] = Lane(self, version)
        return lane

    def waiting(self) -> Iterator[Item]:
        """All items that wait here."""
        for lane in self.lanes.values():
            yield from (item for item in lane.queue if item.state is ItemState.QUEUED)
            yield from lane.suspects

    def version_of(self, worker: "Worker") -> str:
        """What a worker serves here: "" in a stage without versions; in another one that names none
        is of the version that there was before.
        """
        return worker.version or DEFAULT_VERSION if self.versioned else ""

    def versions(self) -> list[str]:
        """What its workers serve, from old to new; empty in a stage without versions."""
        named = {self.version_of(worker) for worker in self.workers.values()}
        return sorted(named, key=age_key) if self.versioned else []

    def estimate(self, version: str) -> BatchTime:
        """t(b) of a version's workers here."""
        estimate = self.estimates.get(version)
        if estimate is None:
            estimate = self.estimates[version] = BatchTime()
        return estimate

    def cap(self, worker: "Worker") -> int:
        """Most items of one batch for this worker."""
        most = self.uncapped(worker)
        if self.caps and (cap := self.caps.get(worker.post)) is not None:
            return min(most, cap.most)
        return most

    def uncapped(self, worker: "Worker") -> int:
        """The same, had it never run out of memory."""
        most = self.config.max_batch_size
        return worker.max_batch_size if most is None else min(most, worker.max_batch_size)

    @property
    def largest_batch(self) -> int:
        """The most that one of its workers takes, when it has all its memory."""
        return max((self.uncapped(worker) for worker in self.workers.values()), default=0)

    def learn_growth(self, size: int) -> None:
        """A result of so many bytes was passed on: the next may be as large."""
        growth = self.growth
        self.growth = size if size >= growth else growth - (growth - size >> GROWTH_FADES)

    def expected_growth(self) -> int:
        """Bytes that each further result may take; a guess before there was any."""
        if self.growth or self.last:
            return self.growth
        items, bodies = self.pipeline.items, self.pipeline.body_bytes
        return GUESSED_GROWTH * (bodies // items) if bodies > items * LARGE_BYTES else 0

    def measure_room(self) -> None:
        """Set the bound of the queue: as told, or twice what the ready workers can hold."""
        told = self.config.max_queue_items
        if told is not None:
            self.room = told
            if not self.versioned:
                return
        held = sum(w.credit * self.cap(w) for w in self.workers.values() if w.serving)
        if held and told is None:
            self.room = 2 * held
        if self.versioned:
            self._divide_room(held)

    def _divide_room(self, held: int) -> None:
        """Each version has as much of the room as its workers have of what all can hold."""
        self.parts = {}
        for worker in self.workers.values():
            if worker.serving:
                part = -(-self.room * worker.credit * self.cap(worker) // held)
                version = self.version_of(worker)
                self.parts[version] = self.parts.get(version, 0) + part

    def crowd(self) -> int:
        """In a stage with versions, how many wait here, as far as that holds back those before: one
        version that does not get on must not stop the others.
        """
        parts = self.parts
        return sum(min(lane.waiting, parts.get(lane.version, 0)) for lane in self.lanes.values())

    def oldest(self) -> float | None:
        """Since when an item waits here that nobody has begun; None where none waits."""
        if not self.queued:
            return None
        return min(
            (
                item.entered
                for lane in self.lanes.values()
                for item in (*lane.queue, *lane.suspects)
                if item.state is ItemState.QUEUED
            ),
            default=None,
        )

    @property
    def suspects_out(self) -> int:
        """Leases with a suspect."""
        return sum(lane.suspects_out for lane in self.lanes.values())

    @property
    def ready_workers(self) -> int:
        return sum(worker.serving for worker in self.workers.values())

    @property
    def busy_workers(self) -> int:
        """Those of the ready ones that hold a batch."""
        return sum(bool(w.leases) for w in self.workers.values() if w.serving)

    def reason(self) -> str:
        """Why this stage is not ready, or "" while it is."""
        if self.ready_workers:
            return f"no ready worker of version {self.lack}" if self.lack else ""
        if self.workers:
            reason = "its workers are loading or leaving"
        else:
            reason = "no worker" if not self.absent else "no worker and no supervisor"
        return f"{reason}; {self.trouble}" if self.trouble else reason


class Pipeline:
    """A named chain of stages, and what is held for it."""

    __slots__ = (
        "admitted", "agreements", "begun_anew", "body_bytes", "bytes", "cancelled", "config",
        "forecasts", "forgotten", "growing", "is_copy", "items", "lately", "limbo_bytes",
        "mirror", "name", "recent", "refused", "rollbacks", "rollout", "split", "stages",
        "tallies", "watches",
    )  # fmt: skip

    def __init__(
        self, name: str, config: PipelineConfig, now: float, traffic: Traffic | None = None
    ) -> None:
        """`traffic` is what was kept of it from an earlier life of the broker."""
        self.name = name
        self.config = config
        self.items = 0  # admitted and unanswered
        self.admitted = 0
        self.cancelled = 0  # of these: nobody waited any longer
        self.begun_anew = 0  # of these: given up, for their gateway to submit again
        self.forgotten = 0  # of these: answered by versions whose tallies are gone
        self.refused: Counter[int] = Counter()  # by error code
        self.rollbacks: Counter[str] = Counter()  # by who made them
        self.bytes = 0  # held for them, wherever they are
        self.body_bytes = 0  # of these, what came in with the requests
        self.limbo_bytes = 0  # held for nobody: see keeping.count_limbo
        self.growing = 0  # bytes that results of what workers hold will take, as expected
        self.forecasts: dict[str, Forecast] = {}  # the latest for each version
        self.stages = [Stage(self, index, stage, now) for index, stage in enumerate(config.chain)]
        self.recent = Recent(len(config.chain))
        self.lately = Lately(now)  # how its errors stood some seconds ago
        self.tallies: dict[str, Tally] = {}  # by the version that answered
        self.rollout = Rollout(traffic or Traffic(), now)
        self.split: Split | None = None  # chooses versions; None while nobody names any
        self.is_copy = False  # what it holds are copies, which nobody waits for: see `mirror.py`
        self.mirror: Mirror | None = None  # where copies of its items go, while they do
        self.agreements = Agreements()
        self.watches: Watches | None = None  # of versions against others; None while there is one
        if config.guard is not None:
            self._compare()

    def tally(self, version: str) -> Tally:
        """The figures of a version: more of them where there is another to compare it with."""
        tally = self.tallies.get(version)
        if tally is None:
            if self.tallies and self.watches is None:
                self._compare()
            tally = self.tallies[version] = Figures() if self.watches is not None else Tally()
        return tally

    def _compare(self) -> None:
        self.watches = Watches(self.config.guard, self.rollout.traffic.stable)
        for version, tally in self.tallies.items():
            self.tallies[version] = promoted(tally)

    def grown_bytes(self) -> int:
        """What it holds beyond the bodies of its requests, with what is in the making."""
        return self.bytes - self.body_bytes + self.growing + self.limbo_bytes

    def free_bytes(self) -> int:
        """How many more it may hold, when all that is in the making is there."""
        return self.config.max_bytes - self.bytes - self.growing - self.limbo_bytes

    def versions(self) -> list[str]:
        """The versions that can be asked for."""
        named = {version for stage in self.stages for version in stage.versions()}
        return sorted(named, key=age_key) or [DEFAULT_VERSION]

    def knows(self, version: str) -> bool:
        """Whether this version is here, or was a short while ago, or is on somebody's disk."""
        known = self.rollout.versions if self.split is not None else (DEFAULT_VERSION,)
        return version in known
