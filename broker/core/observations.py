"""What plug-ins observe, by stage, version and name: kept within bounds, and told of."""

from typing import Any

from msgspec import Struct

from broker.core.drift import Drift
from broker.core.peers import Worker
from broker.core.stage import Pipeline, Stage
from broker.core.traffic import age_key
from broker.wire.messages import Observations
from broker.wire.reference import trouble_of

MOST_NAMES = 64
"""Of one version in one stage."""

MOST_OBSERVED = 1024
"""Of all versions in one stage."""

LONGEST_NAME = 64

QUANTILES = (0.05, 0.5, 0.95)


class ObservedFigures(Struct, frozen=True):
    """What was observed under one name. The last ones are of what came of late, or None while that
    is too little."""

    stage: str
    version: str
    name: str
    count: int
    ignored: int
    mean: float
    deviation: float
    least: float
    most: float
    reference: str
    """"model", "first" (those that came first), or "" while there is none."""
    p5: float | None
    p50: float | None
    p95: float | None
    psi: float | None
    shift: float | None
    drift: str
    """"steady", "slight", "large", or "too few"."""


def take(worker: Worker, message: Observations) -> None:
    """Take over what a worker has observed."""
    for stage in worker.stages:
        version = stage.version_of(worker)
        for observed in message.observed:
            drift = _drift(stage, version, observed.name)
            if drift is not None:
                drift.add(observed)
        for reference in message.references:
            drift = stage.observed.get((version, reference.name))
            if drift is not None and not trouble_of(reference):
                drift.refer_to(reference)


def _drift(stage: Stage, version: str, name: str) -> Drift | None:
    """Where a name's numbers go; None where there are too many names already."""
    drift = stage.observed.get((version, name))
    if drift is not None:
        return drift
    names = sum(of == version for of, _ in stage.observed)
    too_many = names >= MOST_NAMES or len(stage.observed) >= MOST_OBSERVED
    if too_many or not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        return None
    drift = stage.observed[version, name] = Drift()
    return drift


def figures(pipeline: Pipeline) -> list[ObservedFigures]:
    """All that was observed in a pipeline."""
    return [
        _figures(stage.name, version, name, stage.observed[version, name])
        for stage in pipeline.stages
        for version, name in sorted(stage.observed, key=lambda key: (age_key(key[0]), key[1]))
    ]


def of_two(pipeline: Pipeline, a: str, b: str) -> dict[str, Any] | None:
    """By stage and name what two versions have observed; None where they have nothing."""
    told: dict[str, Any] = {}
    for stage in pipeline.stages:
        for side, version in (("a", a), ("b", b)):
            for (of, name), drift in stage.observed.items():
                if of == version:
                    names = told.setdefault(stage.name, {})
                    both = names.setdefault(name, {"a": None, "b": None})
                    both[side] = _figures(stage.name, version, name, drift)
    return told or None


def _figures(stage: str, version: str, name: str, drift: Drift) -> ObservedFigures:
    p5, p50, p95 = drift.quantiles(QUANTILES) or (None, None, None)
    reference = "" if drift.reference is None else "model" if drift.is_given else "first"
    return ObservedFigures(
        stage, version, name, drift.count, drift.ignored, drift.mean, drift.deviation,
        drift.least, drift.most, reference, p5, p50, p95, drift.index(), drift.shift(),
        drift.verdict(),
    )  # fmt: skip
