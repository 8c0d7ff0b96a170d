"""A check's report as lines and tables. Pure."""

from millstream.advise.search import DOUBT, is_met
from millstream.chain.findings import Finding
from millstream.check.report import Load, Report, StageReport
from millstream.cli.tables import Table


def tables(report: Report) -> list[Table]:
    """The stages, what is wrong, and what the load needs."""
    shown = [_stages(report)] if report.stages else []
    if report.load is not None:
        shown += _load(report.load)
    shown.append(Table(_verdict(report)))
    return shown


def _stages(report: Report) -> Table:
    columns = ("stage", "plug-in", "where", "takes", "gives", "batch", "t(b)", "measured")
    rows = [
        (
            stage.stage,
            stage.plugin,
            stage.place,
            stage.takes or "-",
            stage.gives or "-",
            str(stage.max_batch_size),
            _model(stage),
            _measured(stage),
        )
        for stage in report.stages
    ]
    return Table(
        [f"{report.pipeline}: {' → '.join(s.stage for s in report.stages)}"], columns, rows
    )


def _model(stage: StageReport) -> str:
    model = stage.model
    if model is None:
        return "-"
    return f"{model.a_s * 1e3:.3g} + {model.c_s * 1e3:.3g}·b ms ± {model.spread:.0%}"


def _measured(stage: StageReport) -> str:
    """The smallest and the largest batch."""
    ends = stage.timings[:1] + stage.timings[1:][-1:]
    return ", ".join(f"{each.size}: {each.median_s * 1e3:.3g} ms" for each in ends) or "-"


def _load(load: Load) -> list[Table]:
    goal, outcome = load.goal, load.outcome
    head = (
        f"For {goal.rate_per_s:g} requests a second, {goal.share:.4g} of them within "
        f"{goal.slo_s * 1e3:g} ms:"
    )
    rows = [
        (stage.name, str(stage.workers), str(stage.cap), f"{busy:.0%}")
        for stage, busy in zip(load.stages, outcome.busy, strict=True)
    ]
    slower = f"were batches to take {DOUBT - 1.0:.0%} longer, {load.doubtful.share:.2%} would be"
    room = "there is some room" if is_met(load.doubtful, goal) else "there is little room"
    enough = "enough" if load.cores <= load.has_cores else "too few"
    return [
        Table([head], ("stage", "workers", "batch", "busy"), rows),
        Table(
            [
                f"simulated: {outcome.share:.2%} in time, median {outcome.p50_s * 1e3:.3g} ms, "
                f"99th percentile {outcome.p99_s * 1e3:.3g} ms; {slower}: {room}",
                f"cores: plug-ins keep {load.cores:.2g} busy, and this machine has "
                f"{load.has_cores}, which is {enough} (gateway and broker need some, too)",
            ]
        ),
    ]


def _verdict(report: Report) -> list[str]:
    wrong = [each for each in report.findings if not each.is_warning]
    warnings = [each for each in report.findings if each.is_warning]
    lines = [line for each in wrong for line in _lines("wrong", each)]
    lines += [line for each in warnings for line in _lines("note", each)]
    if not wrong:
        lines.append("nothing is wrong")
    return lines


def _lines(kind: str, finding: Finding) -> list[str]:
    """One line, and the traceback below it."""
    return [f"{kind}: {finding}", *(f"    {line}" for line in finding.trace.splitlines())]
