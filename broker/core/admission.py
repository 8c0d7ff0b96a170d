"""Which requests are taken in (laws 3 and 6 of scheduling, 4 and 5 of failure)."""

from broker.core.forecast import Forecast
from broker.core.item import Item
from broker.core.ledger import Ledger
from broker.core.peers import Gateway
from broker.core.stage import LARGE_BYTES, Pipeline, Stage
from broker.core.states import BrokerState
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, SubmitItem

MARGIN_S = 0.003
"""Time for what no stage does: the way of the request and of the answer."""

DOUBT = 0.15
"""A prediction may be too short by this share of itself. A queue that is shorter for it answers no
fewer requests, as long as it does not run empty; one that is a little too long answers all of them
a little too late."""


def submit(ledger: Ledger, gateway: Gateway, entries: list[SubmitItem], now: float) -> None:
    """Take in, or refuse, what a gateway submits. One that is held already is left alone."""
    known = gateway.items
    forecasts: dict[str, Forecast] = {}  # workers are looked through once a message
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
            failure = _refusal(ledger, pipeline, entry, now, forecasts=forecasts)
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
    ledger: Ledger,
    pipeline: Pipeline,
    entry: SubmitItem,
    now: float,
    *,
    forecasts: dict[str, Forecast],
) -> Failure | None:
    """Why an entry is not taken in, or None."""
    if ledger.state is not BrokerState.RUNNING:
        return Failure(ErrorCode.DRAINING, "the broker is draining", retry_after_s=1.0)
    failure = _unservable(pipeline, entry)
    if failure is not None or entry.again or not pipeline.items:
        return failure  # what was admitted before passes, and an empty pipeline always admits
    forecast = forecasts.get(pipeline.name)
    if forecast is None:
        forecast = forecasts[pipeline.name] = Forecast(pipeline, now)
    # First whether it would be of use: nobody makes room for one that is refused then.
    return _hopeless(forecast, entry, now) or _beyond_bounds(ledger, pipeline, entry, forecast)


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


def _hopeless(forecast: Forecast, entry: SubmitItem, now: float) -> Failure | None:
    left_s = (entry.left_s - MARGIN_S) / (1.0 + DOUBT)
    if forecast.behind_all_s() <= left_s:
        return None  # so it will be answered in time, whoever goes before it
    wait_s = forecast.in_its_turn_s(
        priority=entry.priority, client=entry.client, deadline=now + entry.left_s
    )
    if wait_s <= left_s:
        return None
    return Failure(
        ErrorCode.OVERLOADED,
        f"its deadline is in {entry.left_s * 1e3:.0f} ms, "
        f"and what waits before it takes about {wait_s * 1e3:.0f} ms",
        retry_after_s=max(1.0, wait_s - entry.left_s),
    )


def _beyond_bounds(
    ledger: Ledger, pipeline: Pipeline, entry: SubmitItem, forecast: Forecast
) -> Failure | None:
    """Why there is no room for an entry, or None. Room is made for it by those that wait at the
    entrance with less right than it: nothing was done for them yet.
    """
    while True:
        limit = _limit(pipeline, entry)
        if not limit:
            return None
        wait_s = max(1.0, forecast.behind_all_s())
        full = Failure(
            ErrorCode.QUEUE_FULL,
            f"{limit} under way in pipeline {pipeline.name!r}, its limit",
            retry_after_s=wait_s,
        )
        greediest = _greediest(pipeline.stages[0], entry)
        if greediest is None:
            return full
        ledger.counters["pushed_out"] += 1
        ledger.answer(greediest, full)


def _limit(pipeline: Pipeline, entry: SubmitItem) -> str:
    """Which bound an entry would be beyond, in words, or ""."""
    config = pipeline.config
    entrance = pipeline.stages[0]
    most = entrance.config.max_queue_items
    size = len(entry.payload) + len(entry.meta)
    if pipeline.items >= config.max_items:
        return f"{config.max_items} requests are"
    if size > pipeline.free_bytes():
        return f"{config.max_bytes} bytes are"
    if pipeline.body_bytes + size > config.max_bytes - _headroom(pipeline, size):
        return f"{config.max_bytes} bytes, with what becomes of them, are"
    if most is not None and entrance.queued >= most:
        return f"{most} requests wait at stage {entrance.name!r}:"
    return ""


def _headroom(pipeline: Pipeline, size: int) -> int:
    """Bytes that bodies leave to what stages make of them: of each stage a full batch, but no more
    than half of all.
    """
    total = 0
    for stage in pipeline.stages[:-1]:
        if not stage.growth and size >= LARGE_BYTES:
            return pipeline.config.max_bytes // 4  # nobody knows yet
        total += stage.growth * max(map(stage.cap, stage.workers.values()), default=1)
    return min(total, pipeline.config.max_bytes // 2)


def _greediest(entrance: Stage, entry: SubmitItem) -> Item | None:
    """Whose request makes room for this one, if any does."""
    for lane in entrance.lanes.values():
        item = lane.queue.greediest(entry.priority, entry.client)
        if item is not None:
            return item
    return None
