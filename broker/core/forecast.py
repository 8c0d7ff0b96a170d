"""When an item that arrives now would be answered (the third law of scheduling).

The slowest stage sets the pace: an item passes it after all that goes before it there or is on its
way there. What the other stages add is one batch each. Stages of which nothing is known add
nothing. What goes before an item in a queue is a question of priority, shares and deadlines.
"""

from collections.abc import Sequence

from broker.core.item import Lease
from broker.core.peers import Worker
from broker.core.stage import Pipeline, Stage


class Pace:
    """How fast a stage is at the moment, by its workers whose t(b) is known."""

    __slots__ = ("_a", "_busy_s", "_c", "_cap", "_full_s", "_hands", "each_s")

    def __init__(self, stage: Stage, now: float) -> None:
        self._hands = 0
        self._cap = 0.0  # of a batch, on average
        self._a = self._c = 0.0  # t(b) = a + c·b, on average
        self._full_s = 0.0  # of a full batch
        self._busy_s = 0.0  # until a worker is free, on average
        self.each_s = 0.0  # what each further item in full batches adds
        for worker in stage.workers.values():
            estimate = stage.estimates.get(worker.version)
            if not worker.serving or estimate is None or not estimate.known:
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

    def run_s(self, before: int) -> float:
        """Seconds that the batch takes which one more item behind `before` others will be in."""
        return self._a + self._c * min(self._cap, before + 1.0)

    def passing_s(self, before: int) -> float:
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
    """The paces of a pipeline's stages at one moment; what waits is looked at when asked."""

    __slots__ = ("_at", "_each_s", "_paces", "_pipeline", "_s", "made")

    def __init__(self, pipeline: Pipeline, now: float) -> None:
        self.made = now
        self._pipeline = pipeline
        self._paces = [Pace(stage, now) for stage in pipeline.stages]
        self._each_s = max(pace.each_s for pace in self._paces)
        self._s = self._answer_s([stage.queued for stage in pipeline.stages])
        self._at = pipeline.items

    def behind_all_s(self, more: int = 0) -> float:
        """Seconds to the answer of one more item, behind all that is under way and `more`."""
        return self._s + (self._pipeline.items + more - self._at) * self._each_s

    def in_its_turn_s(self, *, priority: int, client: int, deadline: float) -> float:
        """The same for an item that goes before some of what waits."""
        return self._answer_s(
            [
                sum(
                    len(lane.suspects) + lane.queue.ahead_of(priority, client, deadline)
                    for lane in stage.lanes.values()
                )
                for stage in self._pipeline.stages
            ]
        )

    def _answer_s(self, waiting: Sequence[int]) -> float:
        """`waiting`: how many go before it in the queue of each stage."""
        before = 0
        runs_s = slowest_s = slowest_run_s = 0.0
        for stage, pace, ahead in zip(self._pipeline.stages, self._paces, waiting, strict=True):
            before += ahead
            if pace.is_known:
                passing_s, run_s = pace.passing_s(before), pace.run_s(before)
                runs_s += run_s
                if passing_s > slowest_s:
                    slowest_s, slowest_run_s = passing_s, run_s
            before += stage.leased
        return slowest_s + runs_s - slowest_run_s


def rest_s(worker: Worker, now: float) -> float:
    """Seconds until a worker comes to what it is sent now."""
    if len(worker.leases) < worker.concurrency:
        return 0.0
    leases = list(worker.leases.values())
    running = leases[: worker.concurrency]
    ahead = leases[worker.concurrency :]
    return min(left_s(each, now) for each in running) + sum(left_s(each, now) for each in ahead)


def downstream_s(stage: Stage) -> float:
    """Seconds that an item needs at the least for the stages after this one."""
    if stage.last:
        return 0.0
    total = 0.0
    for later in stage.pipeline.stages[stage.index + 1 :]:
        for estimate in later.estimates.values():
            total += estimate.predict(1)
            break
    return total
