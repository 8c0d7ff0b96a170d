"""When an item that arrives now would be answered (the third law of scheduling).

The slowest stage sets the pace: an item passes it after all that goes before it there or is on its
way there. What the other stages add is one batch each. Stages of which nothing is known add
nothing. What goes before an item in a queue is a question of priority, shares and deadlines. In a
stage with versions only workers and queue of its own version matter to an item.
"""

from collections.abc import Sequence

from broker.core.item import Lease
from broker.core.peers import Worker
from broker.core.stage import Lane, Pipeline, Stage


class Pace:
    """How fast a stage is for a version at the moment, by its workers whose t(b) is known."""

    __slots__ = ("_a", "_busy_s", "_c", "_cap", "_full_s", "_hands", "each_s", "held")

    def __init__(self, lane: Lane, now: float) -> None:
        stage = lane.stage
        self.held = 0  # items that workers have
        self._hands = 0
        self._cap = 0.0  # of a batch, on average
        self._a = self._c = 0.0  # t(b) = a + c·b, on average
        self._full_s = 0.0  # of a full batch
        self._busy_s = 0.0  # until a worker is free, on average
        self.each_s = 0.0  # what each further item in full batches adds
        for worker in stage.workers.values():
            if not worker.serving or not lane.suits(worker):
                continue
            if stage.versioned:
                self.held += sum(
                    each.size for each in worker.leases.values() if each.stage is stage
                )
            estimate = stage.estimates.get(worker.version)
            if estimate is None or not estimate.known:
                continue
            self._hands += 1
            self._cap += stage.cap(worker)
            self._a += estimate.a
            self._c += estimate.c
            for lease in worker.leases.values():
                self._busy_s += left_s(lease, now)
        if self._hands:
            self._cap /= self._hands
            self._a /= self._hands
            self._c /= self._hands
            self._busy_s /= self._hands
            self._full_s = self._a + self._c * self._cap
            self.each_s = self._full_s / self._cap / self._hands

    @property
    def is_known(self) -> bool:
        return self._hands > 0

    def run_s(self, before: float) -> float:
        """Seconds that the batch takes which one more item behind `before` others will be in."""
        return self._a + self._c * min(self._cap, before + 1.0)

    def passing_s(self, before: float) -> float:
        """Seconds until one more item behind `before` others has passed the stage."""
        batches = before // self._cap
        return self._busy_s + batches * self._full_s / self._hands + self.run_s(before)


def left_s(lease: Lease, now: float) -> float:
    """Seconds that a lease will still take, if its batch takes as long as usual."""
    estimate = lease.stage.estimates.get(lease.worker.version)
    if estimate is None:
        return 0.0
    took_s = now - lease.started if lease.started is not None else 0.0
    return max(estimate.predict(lease.size) - took_s, 0.0)


class Forecast:
    """The paces of a pipeline's stages for one version at one moment; what waits is looked at when
    asked.
    """

    __slots__ = ("_at", "_each_s", "_lanes", "_paces", "_pipeline", "_s", "_share", "made")

    def __init__(self, pipeline: Pipeline, version: str, now: float) -> None:
        self.made = now
        self._pipeline = pipeline
        self._lanes = [stage.lane(version) for stage in pipeline.stages]
        self._paces = [Pace(lane, now) for lane in self._lanes]
        shares = pipeline.split.shares if pipeline.split is not None else {}
        self._share = shares.get(version, 0.0) if shares else 1.0
        # Of a version without a share nobody can say how much more of what comes is for it.
        grows = self._share or 1.0
        self._each_s = max(
            pace.each_s * grows if lane.stage.versioned else pace.each_s
            for pace, lane in zip(self._paces, self._lanes, strict=True)
        )
        self._s = self._answer_s(
            [(lane.stage.queued, lane.waiting) for lane in self._lanes],
        )
        self._at = pipeline.items

    def behind_all_s(self, more: int = 0) -> float:
        """Seconds to the answer of one more item, behind all that is under way and `more`."""
        return self._s + (self._pipeline.items + more - self._at) * self._each_s

    def is_first_of_its_version(self) -> bool:
        """Whether stages with versions hold nothing of this one: it is tried, whatever is thought
        of its pace, which may be wrong.
        """
        return not any(
            lane.stage.versioned and (lane.waiting or pace.held)
            for lane, pace in zip(self._lanes, self._paces, strict=True)
        )

    def in_its_turn_s(self, *, priority: int, client: int, deadline: float) -> float:
        """The same for an item that goes before some of what waits."""

        def ahead(lane: Lane) -> int:
            return len(lane.suspects) + lane.queue.ahead_of(priority, client, deadline)

        return self._answer_s(
            [(sum(map(ahead, each.stage.lanes.values())), ahead(each)) for each in self._lanes]
        )

    def _answer_s(self, waiting: Sequence[tuple[int, int]]) -> float:
        """`waiting`: how many go before it in the queue of each stage, of all and of its version.
        Of what is in stages without versions so many are taken to be of it as it has of requests.
        """
        before = own = 0.0
        runs_s = slowest_s = slowest_run_s = 0.0
        for lane, pace, (ahead, of_it) in zip(self._lanes, self._paces, waiting, strict=True):
            stage = lane.stage
            before += ahead
            own += of_it if stage.versioned else ahead * self._share
            if pace.is_known:
                others = own if stage.versioned else before
                passing_s, run_s = pace.passing_s(others), pace.run_s(others)
                runs_s += run_s
                if passing_s > slowest_s:
                    slowest_s, slowest_run_s = passing_s, run_s
            before += stage.leased
            own += pace.held if stage.versioned else stage.leased * self._share
        return slowest_s + runs_s - slowest_run_s


def rest_s(worker: Worker, now: float) -> float:
    """Seconds until a worker comes to what it is sent now."""
    if len(worker.leases) < worker.concurrency:
        return 0.0
    leases = list(worker.leases.values())
    running = leases[: worker.concurrency]
    ahead = leases[worker.concurrency :]
    return min(left_s(each, now) for each in running) + sum(left_s(each, now) for each in ahead)


def downstream_s(stage: Stage, version: str) -> float:
    """Seconds that an item of this version ("" for any) needs at the least for the stages after
    this one.
    """
    if stage.last:
        return 0.0
    total = 0.0
    for later in stage.pipeline.stages[stage.index + 1 :]:
        estimate = later.estimates.get(version)
        if estimate is not None:
            total += estimate.predict(1)
        elif later.estimates:
            total += min(each.predict(1) for each in later.estimates.values())
    return total


def way_s(stage: Stage) -> float:
    """Seconds that an item may be under way from here on, beside what batches run."""
    return sum(each.way.long_s for each in stage.pipeline.stages[stage.index :])
