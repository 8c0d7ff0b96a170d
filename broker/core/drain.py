"""How workers and the broker leave without losing anything (law 7 of failure)."""

from broker.core import shadow
from broker.core.ledger import Ledger
from broker.core.peers import Gateway, Worker
from broker.core.recovery import returned
from broker.core.stage import Lane
from broker.core.states import BrokerState, BrokerTrigger, WorkerState, WorkerTrigger
from broker.core.streams import end_all
from broker.wire.errors import ErrorCode
from broker.wire.messages import BEAT_S, Dismiss

DRAIN_S = 3.5
"""How long a draining worker is kept for work that only it can do. honcho kills after 5 s."""

LINGER_S = 0.3
"""A drained broker stays this long at least, unless all peers have left: they were told to leave
with it."""

LEAVE_S = 4.0
"""And this long at most for peers that are still about to leave."""


def worker_drains(ledger: Ledger, worker: Worker, lease_ids: list[int], now: float) -> None:
    """A worker wants to leave, and gives back what it has not begun."""
    if worker.state is not WorkerState.DRAINING:
        worker.drain_since = now
        worker.advance(WorkerTrigger.DRAIN)
        ledger.note("worker_draining", worker=worker.id.hex()[:8], stage=worker.hello.stage)
        for stage in worker.stages:
            ledger.stale[stage.pipeline] = None
    ledger.draining_workers[worker.id] = worker
    returned(ledger, worker, lease_ids, now)
    release_worker(ledger, worker, now)


def release_workers(ledger: Ledger, now: float) -> None:
    """See to all draining workers."""
    for worker in list(ledger.draining_workers.values()):
        release_worker(ledger, worker, now)


def release_worker(ledger: Ledger, worker: Worker, now: float) -> None:
    """Send a draining worker no more work when others can do it; dismiss it when it holds none."""
    keep = now - worker.drain_since < DRAIN_S and _needed(ledger, worker)
    if worker.open and not keep:
        worker.open = False
        ledger.remeasure(worker)
    elif keep and not worker.open:
        worker.open = True  # the others are gone meanwhile
        ledger.remeasure(worker)
    if worker.streams and now - worker.drain_since < DRAIN_S:
        return
    if not worker.open and not worker.leases and now - worker.dismissed_at >= BEAT_S:
        worker.dismissed_at = now  # again with each beat, should it be lost
        ledger.send(worker.id, Dismiss(ledger.epoch))


def _needed(ledger: Ledger, worker: Worker) -> bool:
    """Whether something is under way that no other ready worker could do."""
    if not worker.hello.ready:
        return False  # it was never warm
    for stage in worker.stages:
        lane = stage.lane(stage.version_of(worker))
        others = any(
            other is not worker and other.state is WorkerState.READY and lane.suits(other)
            for other in stage.workers.values()
        )
        if not others and stage.pipeline.items and _leads_to(ledger, lane):
            return True
    return False


def _leads_to(ledger: Ledger, lane: Lane) -> bool:
    """Whether something under way may still come to this lane."""
    stage = lane.stage
    return not stage.versioned or any(
        item.version == lane.version
        and item.pipeline is stage.pipeline
        and item.stage.index <= stage.index
        for gateway in ledger.peers.values()
        if isinstance(gateway, Gateway)
        for item in gateway.items.values()
    )


def drain(ledger: Ledger, now: float) -> None:
    """The broker takes no new requests from now on."""
    if ledger.state is BrokerState.RUNNING:
        ledger.drain_since = now
        shadow.close_all(ledger)
        ledger.catalog_changed = True
    ledger.advance(BrokerTrigger.DRAIN)


def end_streams(ledger: Ledger, now: float) -> None:
    """What a draining broker still has of them after so long ends with an error; what has sent no
    value is for the next broker to begin anew.
    """
    if ledger.state is BrokerState.DRAINING and now - ledger.drain_since >= DRAIN_S:
        end_all(ledger, ErrorCode.DRAINING, "the broker is shutting down")


def drained(ledger: Ledger, now: float) -> bool:
    """Whether a draining broker may go: last of all."""
    if ledger.state is not BrokerState.DRAINING:
        return False
    since = now - ledger.drain_since
    held = any(pipeline.items for pipeline in ledger.pipelines.values())
    leaving = ledger.draining_workers or any(
        isinstance(peer, Gateway) and peer.answers for peer in ledger.peers.values()
    )
    if held or (ledger.peers and since < LINGER_S) or (leaving and since < LEAVE_S):
        return False
    ledger.advance(BrokerTrigger.STOP)
    for worker in ledger.draining_workers.values():
        ledger.send(worker.id, Dismiss(ledger.epoch))
    return True
