"""Which of the waiting items a batch takes, so that it is of use to as many clients as can be.

What can no longer meet its deadline is answered at once and takes no slot (law 7 of scheduling). A
larger batch takes longer: where some of its items could bear only a smaller one, the batch is made
that answers most requests in time for its length.
"""

from math import inf

from broker.core.estimate import BatchTime
from broker.core.forecast import downstream_s, rest_s, way_s
from broker.core.item import Item
from broker.core.ledger import Ledger
from broker.core.peers import Worker
from broker.core.stage import Lane
from broker.wire.errors import ErrorCode

WAY_S = 0.002
"""For results on their way to the client: an item that needs this, too, gives way to others."""

LOOKED_AT = 4
"""So many times the size of a batch is looked through at most for items that bear it."""


def take(ledger: Ledger, lane: Lane, worker: Worker, most: int, now: float) -> list[Item]:
    """Take up to `most` items for a batch of this worker, in order; drop what is hopeless."""
    stage, queue = lane.stage, lane.queue
    estimate = stage.estimates.get(worker.version)
    if estimate is None or not estimate.known:
        return queue.take(most)[0]
    begin = now + rest_s(worker, now) + downstream_s(stage, lane.version)
    if queue.live > most:
        begin += WAY_S + way_s(
            stage
        )  # where nobody waits for its place, one that may be a little late is run
    items, late = queue.take(most, begin + estimate.predict(1))
    end = begin + estimate.predict(len(items))
    for item in items:
        if item.deadline < end:
            items = _choose(lane, worker, items, most, begin, late)
            break
    if not items and late and not queue.live and not lane.leased():
        # Nothing else runs or waits: run one, so that a figure that is wrong is corrected.
        items = [item for item in late if item.deadline > now][:1]
    for item in late:
        if item not in items:
            _drop(ledger, lane, item)
    return items


def _choose(  # noqa: PLR0917
    lane: Lane,
    worker: Worker,
    items: list[Item],
    most: int,
    begin: float,
    late: list[Item],
) -> list[Item]:
    """The best batch of these items and those behind them, some of which bear only a small one.

    `begin`: when an answer would go out if batches took no time. Fills `late`.
    """
    queue = lane.queue
    estimate = lane.stage.estimates[worker.version]
    able: list[tuple[float, Item]] = []  # the largest batch that it bears, and an item; in order
    bear_full = 0
    while items:
        sizes = [_largest(item.deadline - begin, estimate) for item in items]
        able += zip(sizes, items, strict=True)
        bear_full += sum(size >= most for size in sizes)
        if bear_full >= most or len(able) > LOOKED_AT * most:
            break
        items, more = queue.take(most - bear_full, begin + estimate.predict(1))
        late += more
    batch = _best(able, most, estimate)
    taken = set(batch)
    others = any(each is not worker and lane.suits(each) for each in lane.stage.idle)
    for largest, item in reversed(able):
        if item in taken:
            continue
        if others or largest >= most:
            queue.push_front(item)
        else:
            late.append(item)
    return batch


def _largest(left_s: float, estimate: BatchTime) -> float:
    """Of how many items a batch may be that takes no longer than this."""
    if estimate.c > 0.0:
        return (left_s - estimate.a) / estimate.c
    return inf if estimate.a <= left_s else 0.0


def _best(able: list[tuple[float, Item]], most: int, estimate: BatchTime) -> list[Item]:
    """The batch with most items for each second, of those that bear its size."""
    best: list[Item] = []
    rate = 0.0
    for size in sorted({min(int(min(largest, most)), len(able)) for largest, _ in able}):
        batch = [item for largest, item in able if largest >= size][:size]
        if batch and len(batch) / max(estimate.predict(len(batch)), 1e-9) >= rate:
            rate = len(batch) / max(estimate.predict(len(batch)), 1e-9)
            best = batch
    return best


def _drop(ledger: Ledger, lane: Lane, item: Item) -> None:
    """Answer a taken item that can no longer meet its deadline."""
    lane.queue.untake()
    ledger.counters["dropped_hopeless"] += 1
    ledger.fail(
        item,
        ErrorCode.DEADLINE_EXCEEDED,
        f"the deadline can no longer be met at stage {item.stage.name!r}",
    )
