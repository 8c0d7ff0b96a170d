"""Batch formation: what is sent to whom, and when (laws 1, 2, 4 and 6 of scheduling).

Called at the end of every turn for the stages that have work. It returns when it should be asked
again though nothing happens: the end of a hold, or the moment at which a worker is about to finish.
"""

from math import ceil, inf

from broker.core.forecast import downstream_s
from broker.core.item import Item
from broker.core.ledger import Ledger
from broker.core.peers import Worker
from broker.core.stage import Lane, Stage
from broker.core.states import ItemState
from broker.core.traces import traces_of
from broker.core.urgency import take
from broker.wire.messages import Batch, BatchItem

ABOUT_TO_FINISH_S = 0.001
"""A busy worker is sent its next batch this long before it should be done: several times what a
message takes from here to there (about 0.1 ms between two processes of one host)."""

BATCHES_HELD = 8
"""What one batch makes takes no more than this part of its pipeline's bytes: a worker learns of
memory that it may use again with its next batch, so that for a while there is one batch too many.
"""

SPARED_S = 1.0
"""A suspect that is due so soon does not wait for a second worker."""

WORTH_SHARING = 1.1
"""A burst is shared among no more workers than are needed to be this near to the best time."""


def dispatch(ledger: Ledger, now: float) -> float:
    """Send all that may be sent now; returns when to call again at the latest (inf: not before
    something happens).
    """
    again = inf
    stages = list(ledger.busy_stages)
    while stages:
        held_back = []
        for stage in stages:
            if not stage.queued:
                del ledger.busy_stages[stage]
                if stage.config.max_wait_ms > 0.0:
                    for lane in stage.lanes.values():
                        lane.held_since = 0.0
                continue
            again = min(again, _dispatch_stage(ledger, stage, now))
            if stage.queued and _room(stage) <= 0:
                held_back.append(stage)
        # A stage that was looked at later in this turn may have made room.
        stages = [stage for stage in held_back if _room(stage) > 0]
    return again


def _dispatch_stage(ledger: Ledger, stage: Stage, now: float) -> float:
    """One stage, lane by lane. Whoever was served goes to the end, so that pipelines and versions
    that share workers take turns.
    """
    again = inf
    queued = stage.queued
    if not stage.versioned:
        again = _dispatch_lane(ledger, stage.lanes[""], now)
        lanes = []
    else:
        lanes = list(stage.lanes.values())
    for lane in lanes:
        waiting = lane.waiting
        if waiting:
            again = min(again, _dispatch_lane(ledger, lane, now))
            if lane.waiting < waiting:
                stage.lanes[lane.version] = stage.lanes.pop(lane.version)
    if stage.queued < queued and len(ledger.busy_stages) > 1:
        del ledger.busy_stages[stage]
        ledger.busy_stages[stage] = None
    return again


def _dispatch_lane(ledger: Ledger, lane: Lane, now: float) -> float:
    stage = lane.stage
    queue = lane.queue
    again = inf
    if lane.suspects:
        _dispatch_suspects(ledger, lane, now)
        if now < lane.replaced_by:
            again = lane.replaced_by
    while queue.live:
        room = _room(stage)
        if room <= 0 or (lane.suspects and _suspects_due(lane, now)):
            return again  # workers run dry for suspects, which must run alone
        free = _serving(stage.idle, lane)
        if free:
            if stage.config.max_wait_ms > 0.0:
                until = _hold_until(ledger, lane, free[0], now)
                if until > now:
                    lane.held_since = lane.held_since or now
                    return min(again, until)
                _end_hold(lane, now)
            most = min(_share(lane, free), room)
            _send(ledger, lane, free[0], most, now)
            continue
        worker, at = _about_to_finish(lane, now)
        if worker is None:
            return min(again, at)
        _send(ledger, lane, worker, min(stage.cap(worker), room), now)
    return again


def _serving(workers: dict[Worker, None], lane: Lane) -> list[Worker]:
    """Those that may take this lane's items, in the order given."""
    if not lane.stage.versioned:
        return list(workers)
    return [worker for worker in workers if lane.suits(worker)]


def _room(stage: Stage) -> int:
    """How many items may leave for the next stage (law 6); one may always, into an empty one."""
    if stage.last:
        return 1 << 30
    following = stage.following
    queued = following.crowd() if following.parts else following.queued
    ahead = queued + stage.leased
    room = following.room - ahead
    if room <= 0 and not ahead:
        room = 1
    each = stage.growth or stage.expected_growth()
    if room * each * BATCHES_HELD <= stage.pipeline.free_bytes():
        return room  # nearly always
    return min(room, _room_in_bytes(stage, each))


def _room_in_bytes(stage: Stage, each: int) -> int:
    """How many results of so many bytes fit into what the pipeline may hold, one of each later
    stage beside them, so that those can go on; where there are none behind it, one always does.
    """
    if not each:
        return 1 << 30
    pipeline = stage.pipeline
    behind = pipeline.stages[stage.index + 1 :]
    free = pipeline.free_bytes()
    for later in behind[:-1]:
        free -= later.growth
    if free < each and not stage.leased and not any(s.queued or s.leased for s in behind):
        return 1
    return min(free // each, max(1, pipeline.config.max_bytes // (BATCHES_HELD * each)))


def _share(lane: Lane, free: list[Worker]) -> int:
    """How many items the first of the free workers gets, when all share what waits (law 3)."""
    stage = lane.stage
    cap = stage.cap(free[0])
    waiting = lane.queue.live
    if len(free) == 1 or waiting == 1:
        return min(waiting, cap)
    even = min(ceil(waiting / len(free)), cap)
    estimate = stage.estimates.get(free[0].version)
    if estimate is None or not estimate.known or estimate.c <= 0.0:
        return even
    best = estimate.predict(even) * WORTH_SHARING
    return min(max(even, int((best - estimate.a) / estimate.c)), cap)


def _hold_until(ledger: Ledger, lane: Lane, worker: Worker, now: float) -> float:
    """Until when a batch is held back to be filled while a worker is free; `now`: not at all."""
    stage = lane.stage
    wait = stage.config.max_wait_ms / 1e3
    cap = stage.cap(worker)
    if lane.queue.live >= cap:
        return now
    before = stage.pipeline.stages[: stage.index]
    if before and not any(earlier.queued or earlier.leased for earlier in before):
        return now  # nothing that could fill it is on its way
    if not before and not any([gateway.others for gateway in ledger.gateways.values()]):
        return now  # every client that there is waits already
    estimate = stage.estimates.get(worker.version)
    run = 0.0
    if estimate is not None and estimate.known:
        if estimate.a <= 0.1 * estimate.c:
            return now  # a batch takes as long as its items one by one: waiting does not pay
        run = estimate.predict(cap)
    reserve = 1.2 * (run + downstream_s(stage, lane.version)) + 0.005
    until = inf
    for item in lane.queue:
        if item.state is ItemState.QUEUED:
            until = min(until, item.entered + wait, item.deadline - reserve)
    return max(until, now)


def _end_hold(lane: Lane, now: float) -> None:
    """A batch is sent: note for how long it was held back, if it was."""
    measures = lane.stage.measures
    if lane.held_since and measures is not None:
        measures.fill.add(now - lane.held_since)
    lane.held_since = 0.0


def _about_to_finish(lane: Lane, now: float) -> tuple[Worker | None, float]:
    """The busy worker to send the next batch ahead to (law 4), or when there may be one."""
    stage = lane.stage
    again = inf
    for worker in _serving(stage.spare, lane):
        shared = len(worker.stages) > 1 or stage.versioned
        others = _others(worker, lane) if shared else []
        if any(_suspects_due(other, now) for other in others):
            continue
        if lane.queue.live >= stage.cap(worker) or others:
            return worker, now  # waiting would fill no batch, or only let others in
        estimate = stage.estimates.get(worker.version)
        if estimate is None or not estimate.known:
            continue
        lease = next(iter(worker.leases.values()))
        started = now if lease.started is None else lease.started
        at = started + estimate.predict(lease.size) - ABOUT_TO_FINISH_S
        if at <= now:
            return worker, now
        again = min(again, at)
    return None, again


def _others(worker: Worker, lane: Lane) -> list[Lane]:
    """The other lanes that have work for this worker."""
    lanes = [each for stage in worker.stages for each in stage.lanes.values() if each.waiting]
    return [each for each in lanes if each is not lane and each.suits(worker)]


def _suspects_due(lane: Lane, now: float) -> bool:
    """Whether a suspect waits only for a worker that holds nothing. They run on all but one of the
    ready workers (law 3 of failure); where there is just one, others take turns with them. The last
    one is spared while the next may be about to join, if there is time for that.
    """
    if not lane.suspects:
        return False
    ready = sum(worker.serving and lane.suits(worker) for worker in lane.stage.workers.values())
    if ready <= 1:
        replaced_by = lane.replaced_by
        if now < replaced_by and lane.suspects[0].deadline > replaced_by + SPARED_S:
            return False
        if lane.suspect_was_last and lane.queue.live:
            return False
    return lane.suspects_out < max(1, ready - 1)


def _dispatch_suspects(ledger: Ledger, lane: Lane, now: float) -> None:
    stage = lane.stage
    while _suspects_due(lane, now):
        free = [worker for worker in _serving(stage.idle, lane) if not worker.leases]
        if not free or _room(stage) <= 0:
            return
        lane.suspect_was_last = True
        hand_out(ledger, lane, free[0], [lane.suspects.popleft()], now)


def _send(ledger: Ledger, lane: Lane, worker: Worker, most: int, now: float) -> None:
    """Send a worker up to `most` items that can still meet their deadline."""
    items = take(ledger, lane, worker, most, now)
    if items:
        lane.suspect_was_last = False
        hand_out(ledger, lane, worker, items, now)


def hand_out(ledger: Ledger, lane: Lane, worker: Worker, items: list[Item], now: float) -> None:
    """Send these items, which were taken out of the lane, to a worker."""
    lease = ledger.lease(worker, lane, items, now)
    stage = lane.stage
    if stage.measures is not None:
        stage.measures.sizes.add(lease.size)
    batch = Batch(
        ledger.epoch,
        lease.id,
        stage.pipeline.name,
        stage.first,
        stage.last,
        [
            BatchItem(item.payload, item.meta, item.deadline - now, item.attempts + 1)
            for item in items
        ],
    )
    if ledger.traced:
        lease.traced = traces_of(items)
        batch.traced = bool(lease.traced)
    if ledger.slots.unsaid and worker.arena:
        batch.freed = ledger.slots.take_free(worker.arena)
    ledger.send(worker.id, batch, fetch=lease.fetch)
