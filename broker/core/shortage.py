"""Smaller batches for workers that ran out of memory, and larger ones again after a while.

What a worker can hold depends on its device, so the cap belongs to its post: the place under a
supervisor that a successor takes over when it dies of it.
"""

from broker.core.ledger import Ledger
from broker.core.peers import Worker
from broker.core.stage import BatchCap, Stage

FIRST_WAIT_S = 10.0
LONGEST_WAIT_S = 600.0
"""A cap is raised after the first; each time that turns out too soon the wait doubles, up to the
second."""

FORGET_AFTER = 4.0
"""A cap that is no longer one is forgotten after so many of its waits: until then a new shortage
counts as having raised it too soon."""


def ran_short(ledger: Ledger, stage: Stage, worker: Worker, items: int, now: float) -> None:
    """`forward` ran out of memory with so many items: send this post half as many for a while."""
    ledger.counters["out_of_memory"] += 1
    before = stage.caps.get(worker.post)
    most = max(1, items // 2)
    if most >= stage.cap(worker):
        return  # a batch of one, or one that was sent before the cap was lowered
    wait_s = FIRST_WAIT_S if before is None else min(2.0 * before.wait_s, LONGEST_WAIT_S)
    full = stage.uncapped(worker)
    stage.caps[worker.post] = BatchCap(most, full=full, wait_s=wait_s, due=now + wait_s)
    ledger.counters["batch_caps_lowered"] += 1
    ledger.note(
        "batch_cap_lowered",
        worker=worker.id.hex()[:8],
        stage=stage.name,
        out_of_memory_with=items,
        batch_cap=most,
        raised_in_s=wait_s,
    )
    ledger.remeasure(worker)


def raise_caps(ledger: Ledger, stage: Stage, now: float) -> None:
    """Try larger batches where the last shortage was some time ago."""
    for post, cap in list(stage.caps.items()):
        if now < cap.due:
            continue
        if cap.most >= cap.full:
            del stage.caps[post]
            continue
        cap.most *= 2
        ledger.counters["batch_caps_raised"] += 1
        ledger.note("batch_cap_raised", stage=stage.name, batch_cap=min(cap.most, cap.full))
        cap.due = now + cap.wait_s * (FORGET_AFTER if cap.most >= cap.full else 1.0)
        for worker in stage.workers.values():
            if worker.post == post:
                ledger.remeasure(worker)
