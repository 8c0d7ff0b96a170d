"""Which requests are taken in (laws 3 and 6 of scheduling, 4 and 5 of failure)."""

from broker.core.ledger import Ledger
from broker.core.peers import Gateway
from broker.core.stage import Pipeline, Stage
from broker.core.states import BrokerState
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, SubmitItem


def submit(ledger: Ledger, gateway: Gateway, entries: list[SubmitItem], now: float) -> None:
    """Take in, or refuse, what a gateway submits. One that is held already is left alone."""
    known = gateway.items
    waits: dict[str, Wait] = {}  # what is under way is looked through once a message
    for entry in entries:
        pipeline = ledger.pipelines.get(entry.pipeline)
        failure: Failure | None = None
        if entry.seq in known:
            ledger.counters["submitted_twice"] += 1
        elif pipeline is None:
            text = f"there is no pipeline {entry.pipeline!r}"
            failure = Failure(ErrorCode.UNKNOWN_PIPELINE, text)
        elif entry.again and _is_too_early(ledger, pipeline, entry, now):
            ledger.counters["postponed"] += 1  # it comes again with the next beat
        else:
            failure = _refusal(ledger, pipeline, entry, now, waits=waits)
            if failure is None:
                ledger.admit(gateway, pipeline, entry, now)
                continue
        if failure is not None:
            ledger.refuse(gateway, entry.seq, failure)
        ledger.discard(entry.payload)


def _is_too_early(ledger: Ledger, pipeline: Pipeline, entry: SubmitItem, now: float) -> bool:
    """Whether workers of the version that it was admitted for may still be on their way here."""
    early = now - ledger.began < pipeline.config.absent_s
    return early and bool(entry.version) and not pipeline.knows(entry.version)


def _refusal(
    ledger: Ledger, pipeline: Pipeline, entry: SubmitItem, now: float, *, waits: dict[str, "Wait"]
) -> Failure | None:
    """Why an entry is not taken in, or None."""
    if ledger.state is not BrokerState.RUNNING:
        return Failure(ErrorCode.DRAINING, "the broker is draining", retry_after_s=1.0)
    failure = _unservable(pipeline, entry)
    if failure is not None or entry.again or not pipeline.items:
        return failure  # what was admitted before passes, and an empty pipeline always admits
    wait = waits.get(pipeline.name)
    if wait is None:
        wait = waits[pipeline.name] = Wait(pipeline, now)
    return _beyond_bounds(pipeline, entry, wait) or _hopeless(wait, entry)


def _unservable(pipeline: Pipeline, entry: SubmitItem) -> Failure | None:
    if entry.version and not pipeline.knows(entry.version):
        text = f"pipeline {pipeline.name!r} has no version {entry.version!r}"
        return Failure(ErrorCode.UNKNOWN_VERSION, text)
    if not 0 <= entry.priority <= 2 or not -1e9 < entry.left_s < 1e9:
        return Failure(ErrorCode.BAD_REQUEST, "a priority or deadline out of range")
    for stage in pipeline.stages:
        if stage.absent:
            return not_ready(stage)
    return None


def not_ready(stage: Stage) -> Failure:
    """The refusal of a pipeline that nobody serves."""
    return Failure(
        ErrorCode.NOT_READY,
        f"stage {stage.name!r} of pipeline {stage.pipeline.name!r} has no worker, "
        f"and no supervisor for more than {stage.pipeline.config.absent_s:g} s",
        retry_after_s=1.0,
    )


def _beyond_bounds(pipeline: Pipeline, entry: SubmitItem, wait: "Wait") -> Failure | None:
    config = pipeline.config
    entrance = pipeline.stages[0]
    most = entrance.config.max_queue_items
    if pipeline.items >= config.max_items:
        what = f"{config.max_items} requests are"
    elif pipeline.bytes + len(entry.payload) + len(entry.meta) > config.max_bytes:
        what = f"{config.max_bytes} bytes are"
    elif most is not None and entrance.queued >= most:
        what = f"{most} requests wait at stage {entrance.name!r}:"
    else:
        return None
    return Failure(
        ErrorCode.QUEUE_FULL,
        f"{what} under way in pipeline {pipeline.name!r}, its limit",
        retry_after_s=max(1.0, wait.seconds()),
    )


def _hopeless(wait: "Wait", entry: SubmitItem) -> Failure | None:
    wait_s = wait.seconds()
    if wait_s <= entry.left_s:
        return None
    return Failure(
        ErrorCode.OVERLOADED,
        f"its deadline is in {entry.left_s * 1e3:.0f} ms, "
        f"and what waits before it takes about {wait_s * 1e3:.0f} ms",
        retry_after_s=max(1.0, wait_s - entry.left_s),
    )


class Wait:
    """Predicts when an item that arrives now would be answered, behind all that is under way.

    The slowest stage sets the pace: an item passes it after everything that is at it or before it.
    What the other stages add is one batch each. Stages of which nothing is known add nothing.
    """

    __slots__ = ("_at", "_base_s", "_each_s", "_pipeline")

    def __init__(self, pipeline: Pipeline, now: float) -> None:
        self._pipeline = pipeline
        self._at = pipeline.items
        before = 0
        once = slowest = slowest_once = self._each_s = 0.0
        for stage in pipeline.stages:
            before += stage.queued
            passing, own, each = _passing_s(stage, before, now)
            before += stage.leased
            once += own
            if passing > slowest:
                slowest, slowest_once, self._each_s = passing, own, each
        self._base_s = slowest + once - slowest_once

    def seconds(self) -> float:
        """For one more item, behind those that were admitted since."""
        return self._base_s + (self._pipeline.items - self._at) * self._each_s


def _passing_s(stage: Stage, before: int, now: float) -> tuple[float, float, float]:
    """Seconds until one more item has passed `stage`; its own batch of these; and what each
    further item before it adds.
    """
    hands = 0
    capacity = 0
    busy = 0.0
    full = 0.0
    own = 0.0
    for worker in stage.workers.values():
        estimate = stage.estimates.get(worker.version)
        if not worker.serving or estimate is None or not estimate.known:
            continue
        cap = stage.cap(worker)
        hands += 1
        capacity += cap
        full += estimate.predict(cap)
        own += estimate.predict(min(cap, before + 1))
        for lease in worker.leases.values():
            took = now - lease.started if lease.started is not None else 0.0
            busy += max(estimate.predict(lease.size) - took, 0.0)
    if not hands:
        return 0.0, 0.0, 0.0
    own /= hands
    each = full / hands / capacity
    batches = before // (capacity / hands)
    return (busy + batches * full / hands) / hands + own, own, each


def downstream_s(stage: Stage) -> float:
    """Seconds that an item needs at the least for the stages after this one."""
    total = 0.0
    for later in stage.pipeline.stages[stage.index + 1 :]:
        for estimate in later.estimates.values():
            total += estimate.predict(1)
            break
    return total
