"""Stages as the broker has learnt them, and the bounds that follow without a simulation. Pure.

A stage is a queue with bulk service: one of its workers takes what waits, up to `cap` items, and
needs t(b) = a + c·b for b of them. However the batches form, its workers pass no more than
N · cap / t(cap) items a second, and a queue in front of them is stable only below that (Bailey, *On
Queueing Processes with Bulk Service*, 1954). What share is answered in time follows from no formula
that is short: the way batches are formed, sent ahead, and refused is the broker's own, so that it
is simulated (`simulation.py`).
"""

from math import ceil

from msgspec import Struct
from msgspec.structs import replace

HOP_S = 0.0003
"""A message from one process to the next, with the turn that it waits for there."""

GAP_S = 0.0003
"""Between two batches of a worker."""


class StageModel(Struct, frozen=True, kw_only=True):
    """One stage: seconds that a batch of b takes, a + c·b; `spread` is their mean deviation, as a
    share.
    """

    name: str
    a_s: float
    c_s: float
    spread: float
    cap: int
    workers: int = 1
    concurrency: int = 1
    repeatable: bool = True

    def run_s(self, size: int) -> float:
        """What a batch of `size` items takes on average."""
        return self.a_s + self.c_s * size

    @property
    def worker_per_s(self) -> float:
        """Items a second that one worker passes at most."""
        return self.concurrency * self.cap / (self.run_s(self.cap) + GAP_S)

    @property
    def most_per_s(self) -> float:
        """The same for all its workers."""
        return self.workers * self.worker_per_s

    def least_workers(self, rate_per_s: float) -> int:
        """With fewer of them its queue only grows."""
        needed = rate_per_s / self.worker_per_s
        return max(ceil(needed), 1) if needed % 1.0 else int(needed) + 1

    def slower(self, factor: float) -> "StageModel":
        """The same stage, were its batches to take so many times as long."""
        return replace(self, a_s=self.a_s * factor, c_s=self.c_s * factor)


def unloaded_s(stages: list[StageModel]) -> float:
    """What one request takes that meets nobody: a batch of one in each stage, and the ways."""
    return sum(stage.run_s(1) for stage in stages) + HOP_S * (2 + 2 * len(stages))


def fitting_caps(stages: list[StageModel], slo_s: float) -> list[StageModel]:
    """With batches no larger than the SLO bears.

    A request that comes just after a batch began waits for it, and then takes as long as its own;
    twice t(cap) and the other stages must fit. A smaller batch than workers take is advised only
    where it does not; a larger one would be a guess.
    """
    fitted = []
    for stage in stages:
        others_s = unloaded_s(stages) - stage.run_s(1)
        room_s = (slo_s - others_s) / 2.0
        most = int((room_s - stage.a_s) / stage.c_s) if stage.c_s > 0.0 else stage.cap
        fits = stage.run_s(stage.cap) <= room_s
        fitted.append(stage if fits else replace(stage, cap=min(max(most, 1), stage.cap)))
    return fitted
