"""Two versions side by side, in figures: what `compare` is answered with."""

from typing import Any

import msgspec
from msgspec import Struct

from broker.core.agreement import agreement
from broker.core.figures import Figures
from broker.core.likeness import Likeness
from broker.core.observations import of_two
from broker.core.pending import NoSuchVersion
from broker.core.stage import Pipeline
from broker.core.tally import Tally
from broker.core.traffic import TrafficError
from broker.core.versions import GONE
from broker.core.watch import Watch

QUANTILES = (0.5, 0.95, 0.99)


class VersionFigures(Struct, frozen=True):
    """Of one version, since the broker began or had another to compare it with; times are of late,
    and of requests: queues and batches in the stages that have versions. None where none is known.
    """

    version: str
    requests: int = 0
    """That got a result, or an error that may be the version's fault."""
    errors: int = 0
    error_rate: float | None = None
    rejected: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


class Comparison(Struct, frozen=True):
    """`agreement` is of their answers to the same requests, `drift` by stage and name what their
    plug-ins observed; None where there is nothing."""

    pipeline: str
    a: VersionFigures
    b: VersionFigures
    agreement: dict[str, Any] | None
    drift: dict[str, Any] | None
    verdict: str


def figures_of(version: str, tally: Tally | None) -> VersionFigures:
    """What is known of a version."""
    if not isinstance(tally, Figures):
        return VersionFigures(version)
    judged, faults = tally.judged, tally.faults
    times_ms: list[float | None] = [None] * len(QUANTILES)
    if tally.latency_s.count:
        times_ms = [round(1e3 * each, 3) for each in tally.latency_s.quantiles(QUANTILES)]
    rate = round(faults / judged, 6) if judged else None
    return VersionFigures(version, judged, faults, rate, tally.rejected, *times_ms)


def compare(pipeline: Pipeline, a: str, b: str) -> bytes:
    """As JSON. Where they are left out, `a` is the stable version and `b` the canary.

    Raises TrafficError where there is no such version, or no two.
    """
    traffic = pipeline.rollout.traffic
    a, b = a or traffic.stable, b or traffic.canary or traffic.previous
    for version in (a, b):
        known = pipeline.rollout.versions.get(version)
        if not version or a == b:
            raise TrafficError("say which two versions are to be compared")
        if (known is None or known.state == GONE) and version not in pipeline.tallies:
            raise NoSuchVersion(f"pipeline {pipeline.name!r} has no version {version[:100]!r}")
    comparison = Comparison(
        pipeline=pipeline.name,
        a=figures_of(a, pipeline.tallies.get(a)),
        b=figures_of(b, pipeline.tallies.get(b)),
        agreement=agreement(pipeline.agreements, a, b),
        drift=of_two(pipeline, a, b),
        verdict=_verdict(pipeline, a, b),
    )
    return msgspec.json.encode(comparison)


def _verdict(pipeline: Pipeline, a: str, b: str) -> str:
    """What can be said of the two, in one line."""
    traffic = pipeline.rollout.traffic
    for version in (a, b):
        if version in traffic.rejected:
            what = "is no longer the shadow" if version in traffic.held else "was rolled back"
            return f"version {version} {what}: {traffic.rejected[version]}"
    if (watches := pipeline.watches) is not None:
        for version, other in ((a, b), (b, a)):
            watch = watches.by_version.get(version)
            if watch is not None and watch.stable == other:
                return _said(watch)
        likeness = watches.likeness
        if likeness is not None and {likeness.shadow, likeness.stable} == {a, b}:
            return _said_of_shadow(likeness)
    return f"versions {a} and {b} do not answer requests side by side"


def _said(watch: Watch) -> str:
    if why := watch.verdict():
        return f"version {watch.version} does worse than {watch.stable}: {why}"
    if watch.requests < watch.config.min_requests:
        return (
            f"too few requests to tell: {watch.requests} of version {watch.version}, "
            f"and {watch.config.min_requests} are needed"
        )
    return (
        f"nothing shows that version {watch.version} does worse than {watch.stable}, "
        f"after {watch.requests} requests"
    )


def _said_of_shadow(likeness: Likeness) -> str:
    if likeness.compared < likeness.config.min_requests:
        return (
            f"too few pairs of answers to tell: {likeness.compared}, "
            f"and {likeness.config.min_requests} are needed"
        )
    return likeness.verdict() or (
        f"nothing shows that fewer than {100 * likeness.config.agreement:.4g} % of the answers of "
        f"version {likeness.shadow} agree with those of {likeness.stable}, "
        f"after {likeness.compared} pairs"
    )
