"""What is advised, as lines and a table. Pure."""

from millstream.advise.learnt import Learnt
from millstream.advise.search import DOUBT, Advice, Goal, is_met
from millstream.cli.tables import Table


def tables(pipeline: str, known: Learnt, advice: Advice, goal: Goal) -> list[Table]:
    """The goal, the stages, what they come to, what to do, and what is uncertain."""
    outcome = advice.outcome
    version = f", version {known.version}" if known.version else ""
    head = (
        f"{pipeline}{version}: for {goal.rate_per_s:g} requests a second, "
        f"{goal.share:.4g} of them within {goal.slo_s * 1e3:g} ms"
    )
    rows = [
        (
            stage.name,
            str(stage.workers),
            str(now.workers),
            str(stage.cap),
            f"{busy:.0%}",
            f"{goal.rate_per_s / stage.most_per_s:.0%}",
            f"{stage.a_s * 1e3:.3g} + {stage.c_s * 1e3:.3g}·b ms ± {stage.spread:.0%}",
            str(samples),
        )
        for stage, now, busy, samples in zip(
            advice.stages, known.stages, outcome.busy, known.samples, strict=True
        )
    ]
    columns = ("stage", "workers", "now", "batch", "busy", "load", "t(b)", "batches")
    lines = [
        f"simulated: {outcome.share:.2%} in time, median {outcome.p50_s * 1e3:.3g} ms, "
        f"99th percentile {outcome.p99_s * 1e3:.3g} ms ({outcome.sent:,} requests)",
        *_doubt(advice, goal),
        *(f"note: {note}" for note in known.notes),
        *_to_do(known, advice),
    ]
    return [Table([head], columns, rows), Table(lines)]


def _doubt(advice: Advice, goal: Goal) -> list[str]:
    slower = f"were batches to take {DOUBT - 1.0:.0%} longer, {advice.doubtful.share:.2%} would be"
    if is_met(advice.doubtful, goal):
        return [f"{slower} in time: there is some room"]
    return [f"{slower} in time: there is little room, so measure it, or start one more"]


def _to_do(known: Learnt, advice: Advice) -> list[str]:
    lines = []
    for stage, now in zip(advice.stages, known.stages, strict=True):
        more = stage.workers - now.workers
        noun = "worker" if abs(more) == 1 else "workers"
        if more > 0:
            lines.append(f"do: start {more} more {noun} of {stage.name}")
        elif more < 0:
            lines.append(f"could: do without {-more} {noun} of {stage.name}")
        if stage.cap < now.cap:
            lines.append(
                f"do: set max_batch_size = {stage.cap} for {stage.name}: a full batch of "
                f"{now.cap} takes {now.run_s(now.cap) * 1e3:.0f} ms, and one that waits for it as "
                "long again"
            )
    return lines or ["do: nothing, that is what there is"]
