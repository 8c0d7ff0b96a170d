"""What becomes of the work of a worker that is lost, hangs, or gives it back.

The second and third laws of failure. Of the batches that a lost worker held, the oldest was
running: its items are suspects, and have used an attempt. Those that were sent ahead go back to the
head of their queue, as if nothing had been. So do those before the one that was running, where its
supervisor knows which that was: they were done, and their results are lost.
"""

from collections.abc import Iterable
from enum import IntEnum

from broker.core.blame import CERTAIN, NO_SIGN, is_guilty
from broker.core.item import Item, Lease
from broker.core.keeping import let_go, lose_sight
from broker.core.ledger import Ledger
from broker.core.peers import Worker
from broker.core.shortage import ran_short
from broker.core.states import ItemState, WorkerState, WorkerTrigger
from broker.core.streams import hangs
from broker.core.traces import given_back
from broker.wire.errors import ErrorCode
from broker.wire.messages import Excuse, Kill, Who

GIVEN_UP_S = 60.0
"""How long a result that comes late is still recognised."""

REPLACED_S = 1.0
"""Within this time a lost worker is replaced, unless it has much to load."""

MISSING_BEATS = 2
MISSING_AFTER_S = 1.0
"""A lease is lost that its worker does not name in so many beats, this long after it was sent."""


class Loss(IntEnum):
    """How a worker was lost, as far as that tells anything about what it ran."""

    AWAY = 0  # stopped, silent, or its supervisor is gone: no request does that
    DIED = 1
    HUNG = 2
    OUT_OF_MEMORY = 3  # killed by the kernel


def lose_worker(
    ledger: Ledger, worker: Worker, reason: str, now: float, *, how: Loss, begun: int = 0
) -> None:
    """A worker is lost: run its work elsewhere, and forget it. It may say HELLO again.

    `begun`: the lease that it began last, 0 where that is not known.
    """
    ledger.counters["workers_lost"] += 1
    ledger.note(
        "worker_lost",
        worker=worker.id.hex()[:8],
        stage=worker.hello.stage,
        peer_pid=worker.hello.pid,
        reason=reason,
        leases=len(worker.leases),
    )
    ledger.posts.lost(worker, reason, now)
    lose_sight(ledger, worker)
    was_suspected = how is not Loss.AWAY and any(lease.alone for lease in _running(worker, begun))
    if was_suspected and worker.supervisor in ledger.peers:
        ledger.send(worker.supervisor, Excuse(ledger.epoch, worker.id))
    for stage in worker.stages:
        stage.flow.losses[how.name.lower()] += 1
        lane = stage.lane(stage.version_of(worker))
        lane.deaths.note(now)
        stage.losses.note(reason, now)
        if any(
            other is not worker and lane.suits(other) and other.state is WorkerState.READY
            for other in stage.workers.values()
        ):
            lane.replaced_by = now + REPLACED_S
    _forget(ledger, worker, WorkerTrigger.LOSE, now, how=how, begun=begun)


def worker_left(ledger: Ledger, worker: Worker, now: float) -> None:
    """A worker ended in order: what it may still hold, it had not begun."""
    hello = worker.hello
    ledger.note("worker_left", worker=worker.id.hex()[:8], stage=hello.stage, pid=hello.pid)
    ledger.posts.left(worker, now)
    for lease in list(reversed(worker.leases.values())):
        _give_back(ledger, lease, now)
    let_go(ledger, worker, list(worker.kept))
    for stage in worker.stages:
        stage.flow.quit += 1
    _forget(ledger, worker, WorkerTrigger.LEAVE, now, how=Loss.AWAY)


def _forget(
    ledger: Ledger, worker: Worker, trigger: WorkerTrigger, now: float, *, how: Loss, begun: int = 0
) -> None:
    running = {lease.id for lease in _running(worker, begun)}
    if worker.state is WorkerState.LOADING:
        running.clear()
    leases = list(worker.leases.values())
    worker.advance(trigger)
    if worker.streams:
        _lose_streams(ledger, worker, now, how=how, in_order=trigger is WorkerTrigger.LEAVE)
    for lease in reversed(leases):
        if lease.id in running:
            if how is Loss.OUT_OF_MEMORY and lease.size > 1:
                ran_short(ledger, lease.stage, worker, lease.size, now)
            _suspect(ledger, lease, now, how=how)
        else:
            _give_back(ledger, lease, now)
    for stage in worker.stages:
        stage.workers.pop(worker.id, None)
    ledger.peers.pop(worker.id, None)
    ledger.slots.leave(worker.arena)
    ledger.draining_workers.pop(worker.id, None)
    ledger.remeasure(worker)


def _running(worker: Worker, begun: int) -> list[Lease]:
    """The leases that it may have been running."""
    lease = worker.leases.get(begun)
    if lease is not None:
        return [lease]
    return [lease for lease in worker.running() if _may_run(worker, lease)]


def _may_run(worker: Worker, lease: Lease) -> bool:
    """Whether one of its oldest leases may have been begun. Before it does so a worker may be busy
    with streams; then it says when it begins, which is not enough where nothing may run twice.
    """
    if lease.started is None:
        return False
    return lease.begun or not worker.may_be_stepping or not worker.repeatable


def _lose_streams(ledger: Ledger, worker: Worker, now: float, *, how: Loss, in_order: bool) -> None:
    """What has sent a value ends here. The others begin anew; unless it left in order, any of them
    may have killed it.
    """
    alone = len(worker.streams) == 1 and not worker.leases
    for item in reversed(list(worker.streams.values())):
        stream = item.stream
        assert stream is not None, "an item among a worker's streams has one"
        if stream.values:
            ledger.counters["streams_broken"] += 1
            text = f"the worker of stage {item.stage.name!r} was lost while it streamed"
            ledger.fail(item, ErrorCode.WORKER_LOST, text)
        elif not worker.repeatable:
            _fail_unrepeatable(ledger, item)
        elif in_order:
            ledger.requeue(item, "returned", suspect=item.suspect)
        else:
            item.attempts += 1
            item.exposures_s += (NO_SIGN if how is Loss.AWAY else now - stream.opened,)
            _run_again(ledger, item, now, alone=alone)


def _give_back(ledger: Ledger, lease: Lease, now: float) -> None:
    """Requeue what had not been begun: it has used no attempt."""
    ledger.end_lease(lease, now)
    if lease.traced:
        given_back(lease)
    _remember(ledger, lease, now)
    for item in reversed(lease.items):
        if item.lease is lease:
            ledger.requeue(item, "returned", suspect=item.suspect)


def _suspect(ledger: Ledger, lease: Lease, now: float, *, how: Loss) -> None:
    """The worker died under this batch: each of its items may be the one that killed it."""
    exposure_s = _exposure_s(lease, now, how=how)
    ledger.end_lease(lease, now)
    _remember(ledger, lease, now)
    for item in lease.items:
        if item.lease is not lease:
            continue
        item.attempts += 1
        item.exposures_s += (exposure_s,)
        if not lease.worker.repeatable:
            _fail_unrepeatable(ledger, item)
        else:
            _run_again(ledger, item, now, alone=lease.size == 1)


def _fail_unrepeatable(ledger: Ledger, item: Item) -> None:
    text = f"the worker of stage {item.stage.name!r} was lost, and its work may not be repeated"
    ledger.fail(item, ErrorCode.WORKER_LOST, text)


def _run_again(ledger: Ledger, item: Item, now: float, *, alone: bool) -> None:
    """It has used another attempt; `alone`: no other can have killed its last worker."""
    if item.attempts < item.pipeline.config.attempts:
        ledger.requeue(item, "lost", suspect=True)
    else:
        _give_up(ledger, item, now, alone=alone)


def _exposure_s(lease: Lease, now: float, *, how: Loss) -> float:
    if how is Loss.AWAY:
        return NO_SIGN
    if how is Loss.HUNG:
        return CERTAIN
    return now - (lease.sent if lease.started is None else lease.started)


def _give_up(ledger: Ledger, item: Item, now: float, *, alone: bool) -> None:
    stage = item.stage
    lane = stage.lane(item.version)
    own = len(item.exposures_s)
    others = max(lane.deaths.lately(now) - own, 0)
    workers = sum(lane.suits(worker) for worker in stage.workers.values())
    is_copy = item.pipeline.is_copy  # it accuses nobody, the request that it is of included
    if alone and not is_copy and is_guilty(item.exposures_s, others=others, workers=workers):
        lane.deaths.explain(own)
        ledger.counters["killers"] += 1
        ledger.note("killer", stage=stage.name, attempts=item.attempts, seq=item.seq)
        text = f"{item.attempts} workers of stage {stage.name!r} died under this request"
        ledger.fail(item, ErrorCode.WORKER_CRASHED, text)
    else:
        text = f"the worker of stage {stage.name!r} was lost {item.attempts} times"
        ledger.fail(item, ErrorCode.WORKER_LOST, text)


def _remember(ledger: Ledger, lease: Lease, now: float) -> None:
    lease.expires = now + GIVEN_UP_S
    ledger.given_up[lease.id] = lease


def returned(ledger: Ledger, worker: Worker, lease_ids: Iterable[int], now: float) -> None:
    """What a worker has not begun: it drains, and gives that back, or is gone, and never got it."""
    leases = [worker.leases[number] for number in lease_ids if number in worker.leases]
    for lease in sorted(leases, key=lambda lease: lease.id, reverse=True):
        _give_back(ledger, lease, now)


def compare_holding(ledger: Ledger, worker: Worker, holding: list[int], now: float) -> None:
    """A worker says what it holds: what it does not know of was lost on the way. So may its results
    have been, and what they referred to; it is asked who it is, and told then what is held of that.
    """
    named = set(holding)
    before = ledger.counters["leases_missing"]
    for lease in list(reversed(worker.leases.values())):
        if lease.id in named or now - lease.sent < MISSING_AFTER_S:
            lease.missing = 0
            continue
        lease.missing += 1
        if lease.missing < MISSING_BEATS:
            continue
        ledger.counters["leases_missing"] += 1
        if worker.repeatable:
            _give_back(ledger, lease, now)
        else:
            _suspect(ledger, lease, now, how=Loss.AWAY)
    lost = ledger.counters["leases_missing"] > before
    if lost and worker.arena and worker.state is WorkerState.READY:
        ledger.send(worker.id, Who(ledger.epoch))


def kill_hung(ledger: Ledger, now: float) -> None:
    """Give up the workers that take longer than they may, and have them killed."""
    for worker in [peer for peer in ledger.peers.values() if isinstance(peer, Worker)]:
        reason = _hung(worker, now)
        if reason:
            ledger.counters["workers_hung"] += 1
            if worker.supervisor in ledger.peers:
                ledger.send(worker.supervisor, Kill(ledger.epoch, worker.id, reason))
            lose_worker(ledger, worker, reason, now, how=Loss.HUNG)


def _hung(worker: Worker, now: float) -> str:
    if worker.state is WorkerState.LOADING:
        most = min((s.config.setup_timeout_s for s in worker.stages), default=float("inf"))
        if now - worker.loading_since > most:
            return f"setup took longer than setup_timeout_s = {most:g}"
    is_stepping = worker.may_be_stepping
    if is_stepping and (reason := hangs(worker, now)):
        return reason
    for lease in worker.running():
        if now > lease.expires and (lease.begun or not is_stepping):
            most = lease.stage.config.forward_timeout_s
            return f"a call of forward took longer than forward_timeout_s = {most:g}"
    return ""


def forget_given_up(ledger: Ledger, now: float) -> None:
    """Drop the memory of leases whose results would come too late to matter."""
    for number, lease in list(ledger.given_up.items()):
        if now > lease.expires or not any(
            item.state in (ItemState.QUEUED, ItemState.LEASED, ItemState.STREAMING)
            for item in lease.items
        ):
            del ledger.given_up[number]
