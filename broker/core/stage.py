"""Pipelines, their stages, and the lanes of a stage: records, and what follows from them."""

from collections import deque
from typing import TYPE_CHECKING

from broker.core.blame import Deaths
from broker.core.config import PipelineConfig
from broker.core.estimate import BatchTime
from broker.core.item import DEFAULT_VERSION, Item
from broker.core.queue import StageQueue
from broker.core.tally import Tally

if TYPE_CHECKING:
    from broker.core.forecast import Forecast
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
    """The waiting items of a stage that want one version, or ("") whichever."""

    __slots__ = ("queue", "stage", "suspect_was_last", "suspects", "version")

    def __init__(self, stage: "Stage", version: str) -> None:
        self.stage = stage
        self.version = version
        self.queue = StageQueue()
        self.suspects: deque[Item] = deque()
        self.suspect_was_last = False  # what was sent last was a suspect

    @property
    def waiting(self) -> int:
        return self.queue.live + len(self.suspects)


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
        "absent", "attended_at", "caps", "config", "deaths", "done", "estimates", "failed",
        "growth", "idle", "index", "lanes", "last", "leased", "name", "pipeline", "queued",
        "repeatable", "replaced_by", "room", "spare", "streaming", "suspects_out", "trouble",
        "versions", "workers",
    )  # fmt: skip

    def __init__(self, pipeline: "Pipeline", index: int, name: str, now: float) -> None:
        self.pipeline = pipeline
        self.index = index
        self.name = name
        self.last = index == len(pipeline.config.chain) - 1
        self.config = pipeline.config.stage(name)
        self.lanes: dict[str, Lane] = {"": Lane(self, "")}
        self.versions: set[str] = set()  # every version that a worker ever named here
        self.repeatable = True  # whether its workers may run an item twice
        self.workers: dict[bytes, Worker] = {}
        self.idle: dict[Worker, None] = {}  # would begin at once; longest idle first
        self.spare: dict[Worker, None] = {}  # busy, and have credit left
        self.queued = 0  # living items that wait here, suspects included
        self.leased = 0  # living items that workers of this stage hold
        self.streaming = 0  # living items that they answer value by value
        self.suspects_out = 0  # leases with a suspect
        self.deaths = Deaths()
        self.replaced_by = now  # when whoever was lost beside others may be there again
        self.caps: dict[Post, BatchCap] = {}  # of posts that ran out of memory
        self.estimates: dict[str, BatchTime] = {}
        self.growth = 0  # bytes of its results, each: about the most that there was lately
        self.room = UNMEASURED_ROOM
        self.trouble = ""  # why its latest worker could not be set up
        self.attended_at = now  # when a supervisor of it was last known
        self.absent = False
        self.done = 0
        self.failed = 0

    @property
    def following(self) -> "Stage":
        """The next stage of the chain; not to be asked of the last."""
        return self.pipeline.stages[self.index + 1]

    def lane(self, version: str) -> Lane:
        """Where an item that wants `version` waits; where nobody names it, with all."""
        if version not in self.versions:
            version = ""
        lane = self.lanes.get(version)
        if lane is None:
            lane = self.lanes[version] = Lane(self, version)
        return lane

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
        if self.config.max_queue_items is not None:
            self.room = self.config.max_queue_items
            return
        held = sum(w.credit * self.cap(w) for w in self.workers.values() if w.serving)
        if held:
            self.room = 2 * held

    @property
    def ready_workers(self) -> int:
        return sum(worker.serving for worker in self.workers.values())

    def reason(self) -> str:
        """Why this stage is not ready, or "" while it is."""
        if self.ready_workers:
            return ""
        if self.workers:
            reason = "its workers are loading or leaving"
        else:
            reason = "no worker" if not self.absent else "no worker and no supervisor"
        return f"{reason}; {self.trouble}" if self.trouble else reason


class Pipeline:
    """A named chain of stages, and what is held for it."""

    __slots__ = (
        "body_bytes", "bytes", "config", "forecast", "growing", "items", "limbo_bytes", "name",
        "stages", "tallies",
    )  # fmt: skip

    def __init__(self, name: str, config: PipelineConfig, now: float) -> None:
        self.name = name
        self.config = config
        self.items = 0  # admitted and unanswered
        self.bytes = 0  # held for them, wherever they are
        self.body_bytes = 0  # of these, what came in with the requests
        self.limbo_bytes = 0  # held for nobody: see keeping.count_limbo
        self.growing = 0  # bytes that results of what workers hold will take, as expected
        self.forecast: Forecast | None = None  # the latest
        self.stages = [Stage(self, index, stage, now) for index, stage in enumerate(config.chain)]
        self.tallies: dict[str, Tally] = {}  # by the version that answered

    def tally(self, version: str) -> Tally:
        """The figures of a version."""
        tally = self.tallies.get(version)
        if tally is None:
            tally = self.tallies[version] = Tally()
        return tally

    def grown_bytes(self) -> int:
        """What it holds beyond the bodies of its requests, with what is in the making."""
        return self.bytes - self.body_bytes + self.growing + self.limbo_bytes

    def free_bytes(self) -> int:
        """How many more it may hold, when all that is in the making is there."""
        return self.config.max_bytes - self.bytes - self.growing - self.limbo_bytes

    def versions(self) -> list[str]:
        """The versions that can be asked for."""
        named = {w.version for s in self.stages for w in s.workers.values() if w.version}
        return sorted(named) or [DEFAULT_VERSION]

    def knows(self, version: str) -> bool:
        """Whether a request may ask for this version."""
        named = [stage.versions for stage in self.stages if stage.versions]
        return any(version in names for names in named) if named else version == DEFAULT_VERSION
