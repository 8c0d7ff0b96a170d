"""Rolls a version back by itself when it is shown to do worse than the one that it is to replace,
and ends a shadow that does not answer alike.

Looked at with the housekeeping, ten times a second, in pipelines where versions are compared. What
counts as worse, and how sure that must be, is in `watch.py` and `GuardConfig`.
"""

from functools import partial

from broker.core import rollout
from broker.core import traffic as t
from broker.core.events import Change
from broker.core.figures import Figures, Moment
from broker.core.ledger import Ledger
from broker.core.likeness import Likeness
from broker.core.pending import adopt
from broker.core.stage import Pipeline
from broker.core.traffic import TrafficError
from broker.core.watch import Watch

GUARD = "guard"
"""Who makes these changes, in the history."""

NOTHING = Moment(0, 0, [])


def look(ledger: Ledger, now: float) -> None:
    """Take in what versions have done since the last look, and act on it."""
    for pipeline in ledger.pipelines.values():
        if pipeline.watches is not None:
            _look(ledger, pipeline, now)


def _look(ledger: Ledger, pipeline: Pipeline, now: float) -> None:
    watches = pipeline.watches
    assert watches is not None, "only where versions are compared"
    watches.follow(pipeline.rollout.traffic, now)
    places = [stage.index for stage in pipeline.stages if stage.versioned]
    known = {name: each for name, each in pipeline.tallies.items() if isinstance(each, Figures)}
    moments = {name: each.peek() for name, each in known.items()}
    for watch in watches.by_version.values():
        _add(pipeline, watch, known, moments)
    for figures in known.values():
        figures.keep(places)
    if watches.likeness is not None:
        _judge_shadow(ledger, pipeline, watches.likeness, now)
    if watches.is_guarding:
        for watch in watches.by_version.values():
            if why := watch.verdict():
                _roll_back(ledger, pipeline, watch, why, now)
                return


def _add(
    pipeline: Pipeline, watch: Watch, known: dict[str, Figures], moments: dict[str, Moment]
) -> None:
    stable = known.get(watch.stable)
    canary = moments.get(watch.version, NOTHING)
    shares = pipeline.split.shares if pipeline.split is not None else {}
    if stable is not None and watch.stable in shares:
        watch.add(canary, moments[watch.stable], stable)
    else:
        watch.add_alone(canary, stable)


def _judge_shadow(ledger: Ledger, pipeline: Pipeline, likeness: Likeness, now: float) -> None:
    stable, shadow = likeness.stable, likeness.shadow
    likeness.add(pipeline.agreements.of(stable, shadow))
    if why := likeness.verdict():
        what = f"shadow off: version {shadow} does not answer as {stable} does"
        # A change that waits goes on waiting: it has nothing to do with this, or is refused then.
        traffic = t.turn_away(pipeline.rollout.traffic, why)
        adopt(ledger, pipeline, traffic, Change(GUARD, what, why), now)
        ledger.counters["shadows_ended"] += 1


def _roll_back(ledger: Ledger, pipeline: Pipeline, watch: Watch, why: str, now: float) -> None:
    what = f"rollback: version {watch.version} does worse than {watch.stable}"
    make = partial(t.roll_back, why=why)
    watch.begin()
    try:
        rollout.change(ledger, pipeline, make, Change(GUARD, what, why), now)
    except TrafficError as error:
        ledger.note("guard_cannot_roll_back", pipeline=pipeline.name, why=why, error=str(error))
    else:
        ledger.counters["rolled_back"] += 1
        pipeline.rollbacks[GUARD] += 1
