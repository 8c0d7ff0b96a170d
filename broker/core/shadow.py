"""Copies for a version that nobody sees: they are run when there is nothing else to do, and what
comes of them is compared with what the users got.

A pipeline with a shadow has a `Mirror` (`mirror.py`). An item that comes into the first stage of it
is copied at the end of the turn; a copy is sent to a worker that holds nothing and has nothing real
waiting, and what may not be run twice is not copied. When both have been answered, they are a pair
for the comparer (`pairing.py`).
"""

from broker.core.dispatch import hand_out
from broker.core.item import ASKED, Item
from broker.core.ledger import Ledger
from broker.core.mirror import Mirror, Pair, hindrance, shape_of
from broker.core.pairing import collect, drop, give_up_verdicts, tell_whether_wanted
from broker.core.peers import Worker
from broker.core.stage import Lane, Pipeline
from broker.core.states import BrokerState, ItemState
from broker.wire.messages import Priority, SubmitItem

SHARED_STRETCH = 2.0
"""In a stage that real requests share, a batch of copies takes no longer than so many times a copy
by itself: whoever comes then waits for that."""

SPARE_S = 1.0
"""A copy is given up after `timeout_s`; its deadline is a little later."""

_UNDER_WAY = (ItemState.QUEUED, ItemState.LEASED)


# ------------------------------------------------------------------ whether there are copies


def follow(ledger: Ledger, pipeline: Pipeline, now: float) -> None:
    """Versions or workers have changed: begin to make copies, or end it."""
    version = pipeline.rollout.traffic.shadow
    any_before = bool(ledger.mirrors)
    wanted = (
        version
        and ledger.state is BrokerState.RUNNING
        and version in pipeline.rollout.served
        and not hindrance(pipeline)
    )
    mirror = pipeline.mirror
    if mirror is not None:
        if wanted and mirror.version == version and mirror.shape == shape_of(pipeline):
            return
        _close(ledger, mirror)
    if wanted:
        fork = next(stage for stage in pipeline.stages if stage.versioned)
        pipeline.mirror = ledger.mirrors[pipeline] = Mirror(pipeline, fork, version, now)
    if bool(ledger.mirrors) is not any_before:
        tell_whether_wanted(ledger)


def close_all(ledger: Ledger) -> None:
    """No more copies."""
    for mirror in list(ledger.mirrors.values()):
        _close(ledger, mirror)
    tell_whether_wanted(ledger)


def _close(ledger: Ledger, mirror: Mirror) -> None:
    for pair in list(mirror.pairs.values()):
        drop(ledger, mirror, pair, "shadow removed")
    mirror.fork.forked = None
    for stage in mirror.copies.stages:
        ledger.busy_stages.pop(stage, None)
    ledger.answering.pop(mirror.gateway.id, None)
    mirror.pipeline.mirror = None
    del ledger.mirrors[mirror.pipeline]


# ------------------------------------------------------------------ making and running them


def prepare(ledger: Ledger, now: float) -> None:
    """Copy what has come, and keep copies out of the dispatch of what is real."""
    for mirror in ledger.mirrors.values():
        if mirror.forked:
            for item in mirror.forked:
                _copy(ledger, mirror, item, now)
            mirror.forked.clear()
        for stage in mirror.copies.stages:
            ledger.busy_stages.pop(stage, None)


def _copy(ledger: Ledger, mirror: Mirror, item: Item, now: float) -> None:
    if (
        not item.version
        or item.version == mirror.version
        or item.stage is not mirror.fork
        or item.state not in _UNDER_WAY
        or item.seq in item.gateway.pairs
    ):
        return
    figures = mirror.pipeline.agreements.of(item.version, mirror.version)
    bounds = mirror.copies.config
    size = len(item.payload) + len(item.meta)
    if now < mirror.paused_until:
        figures.dropped["paused"] += 1
        return
    if len(mirror.pairs) >= bounds.max_items or mirror.bytes + size > bounds.max_bytes:
        figures.dropped["full"] += 1
        return
    mirror.seq += 1
    entry = SubmitItem(
        mirror.seq,
        mirror.pipeline.name,
        item.payload,
        item.meta,
        bounds.timeout_s + SPARE_S,
        item.client,
        Priority.LOW,
        mirror.version,
        key=ASKED,
    )
    ledger.admit(mirror.gateway, mirror.copies, entry, now)
    figures.copies += 1
    pair = Pair(item, mirror.gateway.items[mirror.seq])
    mirror.pairs[mirror.seq] = item.gateway.pairs[item.seq] = pair


def end_turn(ledger: Ledger, now: float) -> None:
    """Send copies to workers that have nothing else to do, and take what has been answered."""
    for mirror in ledger.mirrors.values():
        if now >= mirror.paused_until:
            for stage in reversed(mirror.copies.stages):
                if stage.queued:
                    _dispatch(ledger, stage.lane(mirror.version), now)
    if ledger.answering:
        collect(ledger, now)


def _dispatch(ledger: Ledger, lane: Lane, now: float) -> None:
    for worker in list(lane.stage.idle):
        if not lane.queue.live:
            return
        if not lane.suits(worker) or _has_work(worker):
            continue
        if worker.leases and not lane.stage.versioned:
            continue
        items, _ = lane.queue.take(_most(lane, worker))
        if items:
            hand_out(ledger, lane, worker, items, now)


def _has_work(worker: Worker) -> bool:
    """Whether anything real waits for it."""
    return any(
        lane.waiting and lane.suits(worker)
        for stage in worker.stages
        for lane in stage.lanes.values()
    )


def _most(lane: Lane, worker: Worker) -> int:
    stage = lane.stage
    cap = stage.cap(worker)
    if stage.versioned:
        return cap
    estimate = stage.estimates.get(worker.version)
    if estimate is None or not estimate.known:
        return 1
    if estimate.c <= 0.0:
        return cap
    longest = (SHARED_STRETCH * estimate.predict(1) - estimate.a) / estimate.c
    return max(1, min(cap, int(longest)))


def drop_stream(ledger: Ledger, copy: Item) -> None:
    """A copy is answered by a stream, which nobody would compare."""
    mirror = next(each for each in ledger.mirrors.values() if each.copies is copy.pipeline)
    drop(ledger, mirror, mirror.pairs[copy.seq], "stream")


def sweep(ledger: Ledger, now: float) -> None:
    """Give up the copies of requests that nobody waits for any longer, or that stream, and those
    that have taken too long.
    """
    for mirror in ledger.mirrors.values():
        for pair in list(mirror.pairs.values()):
            copy = pair.copy
            if pair.stable is None and pair.item.state is ItemState.CANCELLED:
                drop(ledger, mirror, pair, "cancelled")
            elif pair.stable is None and pair.item.state is ItemState.STREAMING:
                drop(ledger, mirror, pair, "stream")
            elif pair.shadow is None and now >= copy.deadline - SPARE_S:
                drop(ledger, mirror, pair, "late")
    if ledger.comparer is not None:
        give_up_verdicts(ledger.comparer, now)
