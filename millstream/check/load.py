"""What it takes to serve a load, reckoned from times that were measured here. Pure."""

from millstream.advise.search import Goal, Unreachable, advise
from millstream.advise.simulation import Outcome
from millstream.chain.findings import Finding
from millstream.check.report import Asked, Load, StageReport


def load_of(
    stages: list[StageReport], asked: Asked, *, timeout_s: float, has_cores: int
) -> Load | Finding:
    """Workers by stage, and whether this machine's cores suffice; a finding where nothing does."""
    untimed = [stage for stage in stages if stage.model is None]
    if untimed:
        names = ", ".join(stage.stage for stage in untimed)
        what = (
            f"what {asked.rate_per_s:g} requests a second need is not known: {names} has no times"
        )
        return Finding("", what, "see what kept it from being timed", is_warning=True)
    models = [stage.model for stage in stages if stage.model is not None]
    goal = Goal(
        rate_per_s=asked.rate_per_s, slo_s=asked.slo_s, share=asked.share, timeout_s=timeout_s
    )
    try:
        advice = advise(models, goal)
    except Unreachable as error:
        return Finding("", str(error), "give it more time, or make that stage quicker")
    return Load(
        goal=goal,
        stages=advice.stages,
        outcome=advice.outcome,
        doubtful=advice.doubtful,
        cores=_cores(stages, [stage.workers for stage in advice.stages], advice.outcome),
        has_cores=has_cores,
    )


def _cores(stages: list[StageReport], workers: list[int], outcome: Outcome) -> float:
    """That are busy on average: of workers that wait for a device or a service, only in part."""
    return sum(
        count * busy * _share(stage)
        for stage, count, busy in zip(stages, workers, outcome.busy, strict=True)
    )


def _share(stage: StageReport) -> float:
    """How many cores a call of it keeps busy."""
    wall_s = sum(timing.median_s for timing in stage.timings)
    return sum(timing.cpu_s for timing in stage.timings) / wall_s if wall_s else 0.0
