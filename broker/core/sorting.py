"""Requests that wait follow as versions come and go: who keeps a version, who gets another."""

from broker.core.item import ASKED, DEFAULT_VERSION, Item
from broker.core.ledger import Ledger
from broker.core.peers import Gateway
from broker.core.stage import Pipeline, Stage
from broker.core.states import ItemState
from broker.core.traffic import Split


def sort(ledger: Ledger, pipeline: Pipeline, split: Split) -> None:
    """Items follow: what had no version gets one, what was begun with none keeps its own, and what
    waits for one that is served no longer is given another.
    """
    rollout = pipeline.rollout
    versioned = sum(stage.versioned for stage in pipeline.stages)
    takes = frozenset(rollout.served | rollout.awaited)
    stages_before, took = rollout.settled
    rollout.settled = (versioned, takes)
    if versioned == stages_before and took <= takes and took:
        return
    for gateway in ledger.peers.values():
        if isinstance(gateway, Gateway):
            for item in gateway.items.values():
                if item.pipeline is pipeline:
                    _choose_again(item, split, takes)
    for stage in pipeline.stages:
        if stage.versioned:
            _sort_lanes(stage)


def _choose_again(item: Item, split: Split, takes: frozenset[str]) -> None:
    if not item.version:
        if item.lease is not None:
            item.version = item.stage.version_of(item.lease.worker)
        item.version = item.version or split.choose(item.key)
        item.answered_by = item.version or DEFAULT_VERSION
    elif item.key != ASKED and item.version not in takes and not _is_begun(item):
        item.version = item.answered_by = split.choose(item.key)


def _is_begun(item: Item) -> bool:
    """Whether a worker of its version may have run it."""
    passed = item.pipeline.stages[: item.stage.index]
    return (
        item.state is not ItemState.QUEUED
        or item.suspect
        or item.attempts > 0
        or any(stage.versioned for stage in passed)
    )


def _sort_lanes(stage: Stage) -> None:
    """Have each waiting item wait in the lane of its version."""
    for lane in list(stage.lanes.values()):
        if any(
            item.version != lane.version for item in lane.queue if item.state is ItemState.QUEUED
        ):
            for item in lane.queue.clear():
                item.lane = stage.lane(item.version)
                item.lane.queue.push(item)
        for item in list(lane.suspects):
            if item.version != lane.version:
                lane.suspects.remove(item)
                item.lane = stage.lane(item.version)
                item.lane.suspects.append(item)
