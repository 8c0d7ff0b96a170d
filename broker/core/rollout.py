"""Where a pipeline's requests go, as versions come and go: take-over, changes, promotion.

`refresh` follows whatever has changed, `housekeep` the clock, `change` whoever asks. What has been
changed leaves as a `Save` at the end of each.
"""

from collections.abc import Callable

from broker.core import plugin_metrics, shadow
from broker.core import traffic as t
from broker.core.admission import version_not_ready
from broker.core.events import Change
from broker.core.ledger import Ledger
from broker.core.peers import Supervisor
from broker.core.pending import NoSuchVersion, adopt, drop_pending, save, try_pending
from broker.core.sorting import sort
from broker.core.stage import Pipeline
from broker.core.states import ItemState
from broker.core.traffic import Split, Traffic, age_key
from broker.core.versions import FAILED, GONE, Pending, Version, survey
from broker.wire.messages import VersionState, Want

BROKER = "broker"
"""Who makes the changes that nobody asked for."""

WANTED_AGAIN_S = 2.0
"""A version that is wanted, and after so long only lies on disk: the word was lost."""

FORGET_S = 60.0
"""What was learnt of a version is forgotten when nobody has named it for so long."""


# ------------------------------------------------------------------ what changes by itself


def refresh(ledger: Ledger, now: float) -> None:
    """Workers or supervisors of some pipelines have changed: let what depends on it follow."""
    while ledger.stale:
        pipeline, _ = ledger.stale.popitem()
        supervisors = _supervisors(ledger, pipeline)
        if pipeline.split is not None or _has_versions(pipeline, supervisors):
            _refresh(ledger, pipeline, supervisors, now)
        else:
            save(ledger, pipeline, now)


def _supervisors(ledger: Ledger, pipeline: Pipeline) -> list[Supervisor]:
    """Those that serve a pipeline, or may turn out to."""
    return [
        peer
        for peer in ledger.peers.values()
        if isinstance(peer, Supervisor)
        and (peer.stages is None or any(stage.pipeline is pipeline for stage in peer.stages))
    ]


def _has_versions(pipeline: Pipeline, supervisors: list[Supervisor]) -> bool:
    return (
        any(stage.versioned for stage in pipeline.stages)
        or bool(pipeline.rollout.traffic.named())
        or any(supervisor.hello.has_models for supervisor in supervisors)
    )


def _refresh(ledger: Ledger, pipeline: Pipeline, supervisors: list[Supervisor], now: float) -> None:
    rollout = pipeline.rollout
    survey(rollout, pipeline.stages, supervisors, now)
    # A stage that nobody has joined yet may turn out to have versions, and to lack some.
    is_manned = all(stage.workers for stage in pipeline.stages)
    if is_manned:
        rollout.awaited -= rollout.ready
    try_pending(ledger, pipeline, now)
    if is_manned:
        _take_over(ledger, pipeline, now)
    _direct(ledger, pipeline)
    shadow.follow(ledger, pipeline, now)
    rollout.needed = _needed(pipeline)
    _tell_wants(ledger, supervisors, now)
    save(ledger, pipeline, now)


def _take_over(ledger: Ledger, pipeline: Pipeline, now: float) -> None:
    """The newest version that is ready gets all, where that is wished: not before those that load
    it have done so, or its first worker would get what several did.
    """
    rollout = pipeline.rollout
    traffic = rollout.traffic
    if not traffic.follows or traffic.promotion is not None:
        return
    up = rollout.up() - traffic.rejected.keys() - {traffic.shadow}
    newest = max(up, key=age_key, default="")
    if newest and (not traffic.stable or age_key(newest) > age_key(traffic.stable)):
        why = f"version {newest} is the newest, and ready"
        adopt(ledger, pipeline, t.take_over(traffic, newest), Change(BROKER, "take over", why), now)


def _direct(ledger: Ledger, pipeline: Pipeline) -> None:
    """Make the split for what is ready, and let the items that wait follow it."""
    rollout = pipeline.rollout
    available = rollout.ready or rollout.served
    split = pipeline.split = Split(
        rollout.traffic, available | rollout.awaited, before=pipeline.split
    )
    pipeline.forecasts.clear()
    rollout.absent = {name for name, each in rollout.versions.items() if each.absent}
    hoped = {name for name, each in rollout.versions.items() if each.was_ready and not each.absent}
    rollout.askable = rollout.served | rollout.awaited | hoped
    _find_lack(pipeline, split)
    sort(ledger, pipeline, split)
    shown = (rollout.traffic, split.shares, [(v.name, v.state) for v in rollout.versions.values()])
    if rollout.shown != shown:
        rollout.shown = shown
        ledger.catalog_changed = True


def _find_lack(pipeline: Pipeline, split: Split) -> None:
    """Where no version that gets requests is served in every stage, find which stages lack it."""
    rollout = pipeline.rollout
    lack = ""
    if not any(version in rollout.served for version in split.shares):
        hopes = list(split.shares) or [v for v, each in rollout.versions.items() if each.workers]
        stable = rollout.traffic.stable
        lack = stable if stable in hopes else max(hopes, key=age_key, default="")
    for stage in pipeline.stages:
        stage.lack = ""
        if lack and stage.versioned:
            lane = stage.lane(lack)
            if not any(each.serving and lane.suits(each) for each in stage.workers.values()):
                stage.lack = lack


def _needed(pipeline: Pipeline) -> set[str]:
    """A supervisor that was killed had them, and its successor need not load them by itself."""
    return {
        version
        for stage in pipeline.stages
        if stage.versioned
        for version, lane in stage.lanes.items()
        if version and version not in pipeline.rollout.served and lane.waiting
    }


def _tell_wants(ledger: Ledger, supervisors: list[Supervisor], now: float) -> None:
    """Tell those with a model repository what is wanted of it, when that has changed, and again
    where they do not seem to know.
    """
    for supervisor in supervisors:
        if not supervisor.hello.has_models or supervisor.stages is None:
            continue
        served = [each.rollout for each in {stage.pipeline for stage in supervisor.stages}]
        wanted: set[str] = set().union(*(each.wanted() for each in served))
        rejected = [each.traffic.rejected.keys() for each in served]
        nowhere = set(rejected[0]).intersection(*rejected[1:]) if rejected else set()
        is_deaf = now - supervisor.told_at > WANTED_AGAIN_S and any(
            report.state == VersionState.FOUND and report.version in wanted
            for report in supervisor.versions
        )
        if is_deaf or (wanted, nowhere) != supervisor.wanted:
            supervisor.wanted = wanted, nowhere
            supervisor.told_at = now
            named = [sorted(each, key=age_key) for each in (wanted, nowhere)]
            ledger.send(supervisor.id, Want(ledger.epoch, *named))


# ------------------------------------------------------------------ the clock


def housekeep(ledger: Ledger, now: float) -> None:
    """Promotions go on, and what was waited for long enough is given up."""
    for pipeline in ledger.pipelines.values():
        if pipeline.split is None:
            continue
        rollout = pipeline.rollout
        absent_s = pipeline.config.absent_s
        if rollout.awaited and now - ledger.began >= absent_s:
            rollout.awaited.clear()
            ledger.stale[pipeline] = None
        for version in list(rollout.versions.values()):
            _look_after(ledger, pipeline, version, now)
        if (
            rollout.pending is not None
            or rollout.wanted() - rollout.ready
            or _needed(pipeline) != rollout.needed
        ):
            ledger.stale[pipeline] = None
        if rollout.traffic.promotion is not None:
            _promote(ledger, pipeline, now)
    refresh(ledger, now)


def _look_after(ledger: Ledger, pipeline: Pipeline, version: Version, now: float) -> None:
    if version.attended:
        version.attended_at = now
        return
    away_s = now - version.attended_at
    if version.absent:  # what could be given another version has one
        _refuse_waiting(ledger, pipeline, version.name)
        if away_s > FORGET_S and version.state == GONE:
            _forget(pipeline, version.name)
    elif away_s > pipeline.config.absent_s:
        version.absent = True
        ledger.stale[pipeline] = None


def _refuse_waiting(ledger: Ledger, pipeline: Pipeline, version: str) -> None:
    waiting = [
        item
        for stage in pipeline.stages
        if stage.versioned and (lane := stage.lanes.get(version)) is not None and lane.waiting
        for item in [*lane.queue, *lane.suspects]
        if item.state is ItemState.QUEUED
    ]
    for item in waiting:
        ledger.turn_out(item, version_not_ready(pipeline, version))


def _forget(pipeline: Pipeline, version: str) -> None:
    """What was learnt of a version that nobody has any longer."""
    rollout = pipeline.rollout
    if version in rollout.traffic.named() or version in rollout.traffic.labels.values():
        return
    del rollout.versions[version]
    tally = pipeline.tallies.pop(version, None)
    if tally is not None:
        pipeline.forgotten += tally.answered + tally.failed
    pipeline.forecasts.clear()
    for stage in pipeline.stages:
        lane = stage.lanes.get(version)
        if stage.versioned and lane is not None and not lane.waiting and not lane.suspects_out:
            del stage.lanes[version]
        stage.estimates.pop(version, None)
        plugin_metrics.forget(stage, version)
        for key in [key for key in stage.observed if key[0] == version]:
            del stage.observed[key]


def _promote(ledger: Ledger, pipeline: Pipeline, now: float) -> None:
    """The next step, when the time of this one is over, its version is there, and the guard, where
    there is one, has seen enough of it.
    """
    rollout = pipeline.rollout
    promotion = rollout.traffic.promotion
    assert promotion is not None, "only a promotion has steps"
    if now - rollout.stepped_at < promotion.every_s or promotion.version not in rollout.ready:
        return
    if pipeline.watches is not None and not pipeline.watches.may_step(promotion):
        return
    following = t.next_step(rollout.traffic)
    if following.promotion is None:
        what = f"promote {promotion.version}: done"
    else:
        what = f"promote {promotion.version}: {promotion.steps[promotion.step + 1]:g} %"
    why = f"step {promotion.step + 1} of {len(promotion.steps)} took its {promotion.every_s:g} s"
    adopt(ledger, pipeline, following, Change(BROKER, what, why), now)


# ------------------------------------------------------------------ what is asked for


def change(
    ledger: Ledger,
    pipeline: Pipeline,
    make: Callable[[Traffic], Traffic],
    change: Change,
    now: float,
    *,
    asker: bytes = b"",
) -> None:
    """Make this change: at once, or as soon as the versions are ready that it needs. Then, or when
    it comes to nothing, `asker` is told. Takes the place of one that still waits.

    Raises TrafficError (NoSuchVersion) where it cannot be made, and nothing changes.
    """
    rollout = pipeline.rollout
    look(ledger, pipeline, now)
    after = make(rollout.traffic)
    needed = after.named() - rollout.traffic.named()
    for version in needed | set(after.labels.values()) - set(rollout.traffic.labels.values()):
        if version not in rollout.versions or rollout.versions[version].state == GONE:
            raise NoSuchVersion(_nobody_has(ledger, pipeline, version))
    drop_pending(ledger, pipeline, "another change of the traffic took its place")
    if needed <= rollout.ready:
        adopt(ledger, pipeline, after, change, now, asker=asker)
    else:
        pending = Pending(make, change, asker=asker, waits_for=needed, now=now)
        pending.doubtful = {v for v in needed if rollout.versions[v].state == FAILED}
        rollout.pending = pending
        ledger.stale[pipeline] = None
    refresh(ledger, now)


def look(ledger: Ledger, pipeline: Pipeline, now: float) -> None:
    """See what there is of versions, also where nobody names any."""
    survey(pipeline.rollout, pipeline.stages, _supervisors(ledger, pipeline), now)


def _nobody_has(ledger: Ledger, pipeline: Pipeline, version: str) -> str:
    there = [name for name, each in pipeline.rollout.versions.items() if each.state != GONE]
    known = ", ".join(sorted(there, key=age_key)) or "none"
    text = f"pipeline {pipeline.name!r} has no version {version!r}; there is {known}"
    if any(supervisor.hello.has_models for supervisor in _supervisors(ledger, pipeline)):
        text += " (a folder counts when it is complete, as a copy does 2 s after its last change)"
    return text
