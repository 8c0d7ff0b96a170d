"""Which requests are taken in (laws 3 and 6 of scheduling, 4 and 5 of failure)."""

from math import inf

from broker.core.forecast import Forecast
from broker.core.item import ASKED, Item
from broker.core.ledger import Ledger
from broker.core.peers import Gateway
from broker.core.stage import Pipeline, Stage
from broker.core.states import BrokerState
from broker.core.traffic import Split
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, SubmitItem

MARGIN_S = 0.003
"""Time for what no stage does: the way of the request and of the answer."""

DOUBT = 0.15
"""A prediction may be too short by this share of itself. A queue that is shorter for it answers no
fewer requests, as long as it does not run empty; one that is a little too long answers all of them
a little too late."""

LONGEST_S = 1e9
"""A deadline that is further off is none."""

STALE_S = 0.02
CALM = 4.0
"""For an entry that would be in time though all took so many times as long a forecast of a moment
ago will do."""


def submit(ledger: Ledger, gateway: Gateway, entries: list[SubmitItem], now: float) -> None:
    """Take in, or refuse, what a gateway submits. One that is held already is left alone."""
    known = gateway.items
    easy: dict[str, float] = {}
    for entry in entries:
        name = entry.pipeline
        pipeline = ledger.pipelines.get(name)
        if pipeline is None:
            text = f"there is no pipeline {name!r}"
            _refuse(ledger, gateway, entry, Failure(ErrorCode.UNKNOWN_PIPELINE, text))
            continue
        easy_s = easy.get(name)
        if easy_s is None:
            easy_s = easy[name] = _easy_s(ledger, pipeline, entries, now)
        if (
            easy_s <= entry.left_s < LONGEST_S
            and 0 <= entry.priority <= 2
            and not entry.version
            and entry.seq not in known
        ):
            if pipeline.split is not None:
                entry.version = pipeline.split.only
            ledger.admit(gateway, pipeline, entry, now)
        else:
            _judge(ledger, gateway, pipeline, entry, now)


def _judge(
    ledger: Ledger, gateway: Gateway, pipeline: Pipeline, entry: SubmitItem, now: float
) -> None:
    if entry.seq in gateway.items:
        ledger.counters["submitted_twice"] += 1
        ledger.discard(entry.payload)
    elif entry.version and _is_too_early(ledger, pipeline, entry, now):
        ledger.counters["postponed"] += 1  # it comes again with the next beat
        ledger.discard(entry.payload)
    elif (failure := _refusal(ledger, pipeline, entry, now)) is not None:
        _refuse(ledger, gateway, entry, failure)
    else:
        ledger.admit(gateway, pipeline, entry, now)


def _refuse(ledger: Ledger, gateway: Gateway, entry: SubmitItem, failure: Failure) -> None:
    if entry.seq in gateway.items:
        ledger.counters["submitted_twice"] += 1
    else:
        ledger.refuse(gateway, entry.seq, failure, ledger.pipelines.get(entry.pipeline))
    ledger.discard(entry.payload)


def _easy_s(ledger: Ledger, pipeline: Pipeline, entries: list[SubmitItem], now: float) -> float:
    """So far ahead must the deadline of an entry without further wishes be that nothing more need
    be asked, even were all of these for this pipeline; inf where it must be.

    What is judged once for a message takes a third of the time that each entry by itself does.
    """
    if ledger.state is not BrokerState.RUNNING or any(stage.absent for stage in pipeline.stages):
        return inf
    version = ""
    if pipeline.split is not None:
        version = pipeline.split.only
        if not version or version in pipeline.rollout.absent:
            return inf
    size = 0
    for entry in entries:
        size += len(entry.payload) + len(entry.meta)
    more = len(entries) - 1
    if not _has_plenty(pipeline, size, more):
        return inf
    if not pipeline.items and not more:
        return -LONGEST_S
    forecast = pipeline.forecasts.get(version)
    if forecast is None or now - forecast.made > STALE_S:
        forecast = pipeline.forecasts[version] = Forecast(pipeline, version, now)
    return MARGIN_S + (1.0 + DOUBT) * (CALM * forecast.behind_all_s(more) + STALE_S)


def _is_too_early(ledger: Ledger, pipeline: Pipeline, entry: SubmitItem, now: float) -> bool:
    """Whether workers of the version that it asks for may still be on their way here."""
    if now - ledger.began >= pipeline.config.absent_s or pipeline.knows(entry.version):
        return False
    return entry.again or not all(stage.ready_workers for stage in pipeline.stages)


def _refusal(ledger: Ledger, pipeline: Pipeline, entry: SubmitItem, now: float) -> Failure | None:
    """Why an entry is not taken in, or None."""
    if ledger.state is not BrokerState.RUNNING:
        return Failure(ErrorCode.DRAINING, "the broker is draining", retry_after_s=1.0)
    failure = _unservable(pipeline, entry)
    if failure is not None or entry.again or not pipeline.items:
        return failure  # what was admitted before passes, and an empty pipeline always admits
    # First whether it would be of use: nobody makes room for one that is refused then.
    failure = _hopeless(pipeline, entry, now)
    if failure is None:
        size = len(entry.payload) + len(entry.meta)
        if not _has_plenty(pipeline, size) and _limit(pipeline, size):
            failure = _make_room(ledger, pipeline, entry, size, now)
    return failure


def _unservable(pipeline: Pipeline, entry: SubmitItem) -> Failure | None:
    if pipeline.split is not None:
        failure = _resolve(pipeline, pipeline.split, entry)
        if failure is not None:
            return failure
    elif entry.version and not pipeline.knows(entry.version):
        return _unknown(pipeline, entry.version)
    if not 0 <= entry.priority <= 2 or not -LONGEST_S < entry.left_s < LONGEST_S:
        return Failure(ErrorCode.BAD_REQUEST, "a priority or deadline out of range")
    for stage in pipeline.stages:
        if stage.absent:
            return not_ready(stage)
    return None


def _resolve(pipeline: Pipeline, split: Split, entry: SubmitItem) -> Failure | None:
    """Say of which version an entry will be, in all its stages; or why it cannot be."""
    version = entry.version
    if not version:
        version = entry.version = split.choose(entry.key)
        is_there = version not in pipeline.rollout.absent
    else:
        entry.key = ASKED
        is_there = version in pipeline.rollout.askable
    if is_there:
        return None
    if not pipeline.knows(version):
        return _unknown(pipeline, version)
    return version_not_ready(pipeline, version)


def _unknown(pipeline: Pipeline, version: str) -> Failure:
    there = ", ".join(pipeline.versions())
    text = f"pipeline {pipeline.name!r} has no version {version!r}; there is {there}"
    return Failure(ErrorCode.UNKNOWN_VERSION, text)


def version_not_ready(pipeline: Pipeline, version: str) -> Failure:
    """The refusal of a version that is known, and that nobody serves."""
    known = pipeline.rollout.versions[version]
    detail = f" ({known.detail})" if known.detail else ""
    text = f"version {version!r} of pipeline {pipeline.name!r} is {known.state}{detail}"
    return Failure(ErrorCode.NOT_READY, text, retry_after_s=1.0)


def not_ready(stage: Stage) -> Failure:
    """The refusal of a pipeline that nobody serves."""
    return Failure(
        ErrorCode.NOT_READY,
        f"stage {stage.name!r} of pipeline {stage.pipeline.name!r} has no worker, "
        f"and no supervisor for more than {stage.pipeline.config.absent_s:g} s",
        retry_after_s=1.0,
    )


def _hopeless(pipeline: Pipeline, entry: SubmitItem, now: float) -> Failure | None:
    """Why an entry cannot be answered in time, or None."""
    usable_s = (entry.left_s - MARGIN_S) / (1.0 + DOUBT)
    version = entry.version
    forecast = pipeline.forecasts.get(version)
    if forecast is None or now - forecast.made > STALE_S:
        forecast = pipeline.forecasts[version] = Forecast(pipeline, version, now)
    if CALM * forecast.behind_all_s() + STALE_S <= usable_s:
        return None  # by far
    if forecast.made != now:
        forecast = pipeline.forecasts[version] = Forecast(pipeline, version, now)
    if forecast.behind_all_s() <= usable_s:
        return None  # so it will be answered in time, whoever goes before it
    wait_s = forecast.in_its_turn_s(
        priority=entry.priority, client=entry.client, deadline=now + entry.left_s
    )
    if wait_s <= usable_s or (pipeline.split is not None and forecast.is_first_of_its_version()):
        return None
    return Failure(
        ErrorCode.OVERLOADED,
        f"its deadline is in {entry.left_s * 1e3:.0f} ms, "
        f"and what waits before it takes about {wait_s * 1e3:.0f} ms",
        retry_after_s=max(1.0, wait_s - entry.left_s),
    )


def _has_plenty(pipeline: Pipeline, size: int, more: int = 0) -> bool:
    """Whether no bound is anywhere near, as nearly always, even with so many more requests."""
    config = pipeline.config
    return (
        2 * (pipeline.items + more) < config.max_items
        and 4 * (config.max_bytes - pipeline.free_bytes() + size) < config.max_bytes
        and pipeline.stages[0].config.max_queue_items is None
    )


def _limit(pipeline: Pipeline, size: int) -> str:
    """Which bound one more request of so many bytes would be beyond, in words, or ""."""
    config = pipeline.config
    entrance = pipeline.stages[0]
    most = entrance.config.max_queue_items
    if pipeline.items >= config.max_items:
        return f"{config.max_items} requests are"
    if size > pipeline.free_bytes():
        return f"{config.max_bytes} bytes are"
    if pipeline.body_bytes + size > config.max_bytes - _headroom(pipeline):
        return f"{config.max_bytes} bytes, with what becomes of them, are"
    if most is not None and entrance.queued >= most:
        return f"{most} requests wait at stage {entrance.name!r}:"
    return ""


def _headroom(pipeline: Pipeline) -> int:
    """Bytes that bodies leave to what stages make of them: of each stage a full batch, but no more
    than half of all; a quarter, where bodies are large and it is not known what becomes of them.
    """
    total = 0
    for stage in pipeline.stages[:-1]:
        if not stage.growth and stage.expected_growth():
            return pipeline.config.max_bytes // 4
        total += stage.growth * max(map(stage.cap, stage.workers.values()), default=1)
    return min(total, pipeline.config.max_bytes // 2)


def _make_room(
    ledger: Ledger, pipeline: Pipeline, entry: SubmitItem, size: int, now: float
) -> Failure | None:
    """There is no room for an entry: those that wait at the entrance with less right make it, since
    nothing was done for them yet. Why it is refused, where there are none.
    """
    forecast = Forecast(pipeline, entry.version, now)
    while limit := _limit(pipeline, size):
        full = Failure(
            ErrorCode.QUEUE_FULL,
            f"{limit} under way in pipeline {pipeline.name!r}, its limit",
            retry_after_s=max(1.0, forecast.behind_all_s()),
        )
        greediest = _greediest(pipeline.stages[0], entry)
        if greediest is None:
            return full
        ledger.counters["pushed_out"] += 1
        ledger.turn_out(greediest, full)
    return None


def _greediest(entrance: Stage, entry: SubmitItem) -> Item | None:
    """Whose request makes room for this one, if any does."""
    for lane in entrance.lanes.values():
        item = lane.queue.greediest(entry.priority, entry.client)
        if item is not None:
            return item
    return None
