"""The traffic document: what is told of a pipeline's traffic, in JSON."""

from typing import Any

import msgspec
from msgspec import Struct

from broker.core.item import DEFAULT_VERSION
from broker.core.stage import Pipeline
from broker.core.traffic import age_key


class VersionDocument(Struct, frozen=True):
    """`share` is what it gets at the moment, in percent."""

    version: str
    state: str
    detail: str = ""
    workers: int = 0
    ready_workers: int = 0
    share: float = 0.0


class TrafficDocument(Struct, frozen=True):
    """`weights` are shares in percent, as they were given; what versions get while some of them are
    not ready is in `versions`.
    """

    pipeline: str
    follows: bool
    weights: dict[str, float]
    stable: str
    previous: str
    canary: str
    shadow: str
    sticky: str
    labels: dict[str, str]
    rejected: dict[str, str]
    promotion: dict[str, Any] | None
    pending: dict[str, Any] | None
    versions: list[VersionDocument]
    changed: dict[str, Any] | None


def document(pipeline: Pipeline, now: float, wall_offset_s: float) -> bytes:
    """As JSON. `wall_offset_s` is the wall clock less the one that `now` is from."""
    return msgspec.json.encode(describe(pipeline, now, wall_offset_s))


def describe(pipeline: Pipeline, now: float, wall_offset_s: float) -> TrafficDocument:
    """The same, as data."""
    rollout = pipeline.rollout
    traffic = rollout.traffic
    total = sum(traffic.weights.values())
    promotion = pending = changed = None
    if traffic.promotion is not None:
        promotion = msgspec.to_builtins(traffic.promotion)
        promotion["elapsed_s"] = round(now - rollout.stepped_at, 3)
    if rollout.pending is not None:
        waiting = rollout.pending
        pending = msgspec.to_builtins(waiting.change) | {
            "waits_for": sorted(waiting.waits_for, key=age_key),
            "elapsed_s": round(now - waiting.since, 3),
        }
    if rollout.changed is not None:
        at = round(rollout.changed_at + wall_offset_s, 3)
        changed = {"at": at} | msgspec.to_builtins(rollout.changed)
    return TrafficDocument(
        pipeline=pipeline.name,
        follows=traffic.follows,
        weights={v: _percent(share / total) for v, share in traffic.weights.items()},
        stable=traffic.stable,
        previous=traffic.previous,
        canary=traffic.canary,
        shadow=traffic.shadow,
        sticky=traffic.sticky,
        labels=traffic.all_labels(),
        rejected=traffic.rejected,
        promotion=promotion,
        pending=pending,
        versions=version_documents(pipeline),
        changed=changed,
    )


def version_documents(pipeline: Pipeline) -> list[VersionDocument]:
    """All versions that are known, from old to new."""
    versions = pipeline.rollout.versions
    # Where nobody names a version all are answered as the one that there is.
    shares = pipeline.split.shares if pipeline.split is not None else {DEFAULT_VERSION: 1.0}
    return [
        VersionDocument(
            name,
            versions[name].state,
            versions[name].detail,
            versions[name].workers,
            versions[name].ready_workers,
            _percent(shares.get(name, 0.0)),
        )
        for name in sorted(versions, key=age_key)
    ]


def _percent(share: float) -> float:
    return round(100.0 * share, 6)
