"""What workers look at beyond their leases, and what becomes of it when one is lost.

A plug-in may keep arrays of a batch that is done. Its worker says so, and says when they are gone.
A worker that has no arena looks at nothing: it gets bytes.
"""

from collections.abc import Iterable

from broker.core.ledger import Ledger
from broker.core.peers import Worker
from broker.wire.messages import SlotKey


def keep(ledger: Ledger, worker: Worker, keys: Iterable[SlotKey]) -> None:
    """It goes on looking at these, after their batch."""
    if worker.arena:
        new = set(keys) - worker.kept
        worker.kept |= new
        ledger.slots.hold(new)


def keep_only(ledger: Ledger, worker: Worker, keys: Iterable[SlotKey]) -> None:
    """It says all that it looks at."""
    if keys or worker.kept:
        named = set(keys)
        keep(ledger, worker, named)
        let_go(ledger, worker, worker.kept - named)


def let_go(ledger: Ledger, worker: Worker, keys: Iterable[SlotKey]) -> None:
    """It no longer looks at these. Some it may never have named."""
    old = worker.kept.intersection(keys)
    worker.kept -= old
    ledger.slots.release(old)


def lose_sight(ledger: Ledger, worker: Worker) -> None:
    """It is lost, and may still look at all that it had."""
    held = list(worker.kept)
    worker.kept.clear()
    for lease in worker.leases.values():
        if lease.slots:
            left = ledger.left_in_limbo.setdefault(worker.arena, [])
            left += [(i, i.slots, len(i.payload)) for i in lease.items if i.slots]
        held += lease.slots
        lease.slots = ()
    ledger.slots.into_limbo(worker.arena, held)


def count_limbo(ledger: Ledger) -> None:
    """Bytes that nobody needs, and that cannot be used again since a lost worker may look at them:
    its pipelines may hold so many fewer.
    """
    copies = [mirror.copies for mirror in ledger.mirrors.values()]
    for pipeline in (*ledger.pipelines.values(), *copies):
        pipeline.limbo_bytes = 0
    for arena, left in list(ledger.left_in_limbo.items()):
        if arena not in ledger.slots.limbo:
            del ledger.left_in_limbo[arena]
            continue
        for item, slots, size in left:
            if item.slots is not slots:
                item.pipeline.limbo_bytes += size
