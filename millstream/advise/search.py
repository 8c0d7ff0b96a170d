"""The fewest workers that meet a service level objective, stage by stage. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from millstream.advise.model import StageModel, fitting_caps, unloaded_s
from millstream.advise.simulation import Outcome, simulate

LEAST_REQUESTS = 2_000
MOST_REQUESTS = 10_000
SIMULATED_S = 20.0
"""So long is simulated, with so many requests at the least and at the most."""

MOST_WORKERS = 1000
NO_HELP = 4
"""So many more workers without an effect show that it is not for want of them."""

DOUBT = 1.15
"""Batches that take so many times as long as was learnt: is the advice still good then?"""


class Goal(Struct, frozen=True, kw_only=True):
    """What is wanted. `share`: of what is sent, what is to be answered within `slo_s`."""

    rate_per_s: float
    slo_s: float
    share: float
    timeout_s: float
    most_requests: int = MOST_REQUESTS
    """That are simulated at once: the more, the surer."""


class Advice(Struct, frozen=True, kw_only=True):
    """What the goal needs: `stages` with as many workers, and batches as large. `outcome` is what
    they come to; `doubtful` what if batches took longer by `DOUBT`.
    """

    stages: list[StageModel]
    outcome: Outcome
    doubtful: Outcome


class Unreachable(Exception):
    """No number of workers meets the goal; the message says why."""


def advise(stages: list[StageModel], goal: Goal) -> Advice:
    """The fewest workers that meet it. Raises Unreachable."""
    alone_s = unloaded_s(stages)
    if alone_s > goal.slo_s:
        slowest = max(stages, key=lambda stage: stage.run_s(1))
        raise Unreachable(
            f"one request alone takes {alone_s * 1e3:.1f} ms, and is wanted within "
            f"{goal.slo_s * 1e3:g}: {slowest.name} takes {slowest.run_s(1) * 1e3:.1f} ms of that"
        )
    fitted = fitting_caps(stages, goal.slo_s)
    chosen = [replace(stage, workers=stage.least_workers(goal.rate_per_s)) for stage in fitted]
    chosen, outcome = _add(chosen, goal)
    chosen, outcome = _take_away(chosen, outcome, goal)
    doubtful = played([stage.slower(DOUBT) for stage in chosen], goal)
    return Advice(stages=chosen, outcome=outcome, doubtful=doubtful)


def played(stages: list[StageModel], goal: Goal) -> Outcome:
    """What these workers come to under the load of a goal."""
    wanted = int(goal.rate_per_s * SIMULATED_S)
    return simulate(
        stages,
        rate_per_s=goal.rate_per_s,
        slo_s=goal.slo_s,
        timeout_s=goal.timeout_s,
        requests=min(max(wanted, LEAST_REQUESTS), goal.most_requests),
    )


def is_met(outcome: Outcome, goal: Goal) -> bool:
    """Whether enough was answered in time."""
    return outcome.share >= goal.share


def _add(stages: list[StageModel], goal: Goal) -> tuple[list[StageModel], Outcome]:
    """One worker more where it helps most, until the goal is met."""
    outcome = played(stages, goal)
    in_vain = 0
    while not is_met(outcome, goal):
        if sum(stage.workers for stage in stages) >= MOST_WORKERS or in_vain >= NO_HELP:
            raise Unreachable(
                f"only {outcome.share:.1%} would be in time, and further workers do not change "
                "that: a request takes too long even where nothing waits"
            )
        tried = [_with_more(stages, place) for place in _candidates(stages, outcome)]
        outcomes = [played(each, goal) for each in tried]
        best = max(range(len(tried)), key=lambda place: outcomes[place].share)
        gained = outcomes[best].share - outcome.share
        in_vain = in_vain + 1 if gained < 0.0005 else 0
        stages, outcome = tried[best], outcomes[best]
    return stages, outcome


def _candidates(stages: list[StageModel], outcome: Outcome) -> list[int]:
    """Where one more may help: the stage that was waited for, and the one that is busiest."""
    places = range(len(stages))
    longest = max(places, key=lambda place: outcome.waits_s[place])
    busiest = max(places, key=lambda place: outcome.busy[place])
    return sorted({longest, busiest})


def _with_more(stages: list[StageModel], place: int, more: int = 1) -> list[StageModel]:
    changed = replace(stages[place], workers=stages[place].workers + more)
    return [changed if at == place else stage for at, stage in enumerate(stages)]


def _take_away(
    stages: list[StageModel], outcome: Outcome, goal: Goal
) -> tuple[list[StageModel], Outcome]:
    """Without those that turned out not to be needed."""
    for place in range(len(stages)):
        while stages[place].workers > stages[place].least_workers(goal.rate_per_s):
            fewer = _with_more(stages, place, -1)
            tried = played(fewer, goal)
            if not is_met(tried, goal):
                break
            stages, outcome = fewer, tried
    return stages, outcome
