"""The live view as lines: which parts there are, and how much of each has room. Pure."""

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct
from rich.text import Text

from millstream.cli.tables import duration
from millstream.top.grid import Column, bar, grid, sparkline
from millstream.top.report import Event, Pipeline, Report, Stage, Times, Worker

SORTS = ("stage", "busy", "batches", "memory", "age")
MOST_FINDINGS = 3
LABEL_CELLS = 9

COLOURS = {"error": "bold red", "warning": "yellow", "fine": "green"}
STATES = {"ready": "green", "loading": "yellow", "draining": "yellow", "lost": "bold red"}
KEYS = "q quit  tab pipeline  s sort  r reverse  space pause"


class State(Struct):
    """What whoever looks has chosen."""

    pipeline: str = ""
    sort: str = SORTS[0]
    reverse: bool = False
    paused: bool = False
    trouble: str = ""
    """Why what is shown is old; "" while it is not."""


def lines(
    report: Report, state: State, *, width: int, height: int | None, local: bool = True
) -> list[Text]:
    """At most `height` lines of at most `width` cells; all there is where that is None.

    `local`: times of day are the terminal's own, else UTC.
    """
    name = chosen(report, state)
    pipeline = report.pipelines.get(name, Pipeline())
    head = [_headline(report, name, width), *_findings(report, name, width)]
    if state.trouble:
        head.append(Text(state.trouble, style="bold red"))
    parts: list[list[Text]] = [head]
    if pipeline.chain:
        parts += [_chain(report, name, pipeline, width), _history(pipeline, width)]
        if pipeline.traffic is not None:
            parts.append(_versions(pipeline, width))
    workers = _workers(report, pipeline, state, width)
    events = [_event(each, local=local) for each in reversed(report.events)]
    foot = [] if height is None else [_footer(report, state, name)]
    return _fitted(parts, workers, events, foot, width=width, height=height)


def chosen(report: Report, state: State) -> str:
    """The pipeline that is shown: the one that was chosen, while it is there."""
    if state.pipeline in report.pipelines:
        return state.pipeline
    return next(iter(report.pipelines), "")


def _fitted(
    parts: list[list[Text]],
    workers: list[Text],
    events: list[Text],
    foot: list[Text],
    *,
    width: int,
    height: int | None,
) -> list[Text]:
    """Workers and events share what is left; blank lines between parts go before any other."""
    if height is None:
        title = [Text("events", style="dim")] if events else []
        everything = [*parts, workers, title + events]
        said = [line for part in everything if part for line in [*part, Text()]][:-1]
    else:
        fixed = sum(map(len, parts)) + len(foot)
        room = max(height - fixed, 0)
        spaced = room > len(workers) + 3 + len(parts)
        room -= len(parts) if spaced else 0
        for_events = min(len(events) + 1, max(room - len(workers), room // 3)) if events else 0
        shown_workers = workers[: room - for_events]
        if len(shown_workers) < len(workers) and len(shown_workers) > 1:
            left = len(workers) - len(shown_workers) + 1
            shown_workers[-1] = Text(f"… and {left} workers more", style="dim")
        said = []
        for part in [*parts, shown_workers]:
            said += part
            said += [Text()] if spaced and part else []
        said = said[: height - len(foot)]
        if for_events > 1:
            room = height - len(foot) - len(said)
            said += [Text("events", style="dim"), *events[: room - 1]] if room > 1 else []
        said += [Text()] * (height - len(foot) - len(said)) + foot
    for line in said:
        line.truncate(width)
        line.no_wrap = True
    return said


def _headline(report: Report, name: str, width: int) -> Text:
    pipeline = report.pipelines.get(name, Pipeline())
    line = Text()
    line.append(name or "no pipeline", style="bold")
    ready = "draining" if report.draining else "ready" if pipeline.ready else "not ready"
    line.append(f"  {ready}", style="green" if ready == "ready" else "bold red")
    latest = pipeline.history[-1] if pipeline.history else None
    if latest is not None:
        line.append(f"  {_rate(latest.came)}/s in  {_rate(latest.answered)}/s out")
        if latest.refused or latest.failed:
            line.append(
                f"  {_rate(latest.refused)}/s refused  {_rate(latest.failed)}/s failed", style="red"
            )
    line.append(f"  {pipeline.items} of {pipeline.max_items} under way")
    gateways = len(report.gateways)
    noun = "gateway" if gateways == 1 else "gateways"
    others = f"  {gateways} {noun}, up {duration(report.uptime_s)}"
    if len(line) + len(others) <= width:
        line.append(others, style="dim")
    return line


def _findings(report: Report, name: str, width: int) -> list[Text]:
    """Those of this pipeline first, none of more than two lines."""
    own = [each for each in report.findings if each.pipeline in (name, "")]
    other = [each for each in report.findings if each.pipeline not in (name, "")]
    return [
        Text(line, style=COLOURS.get(each.level, ""))
        for each in (own + other)[:MOST_FINDINGS]
        for line in textwrap.wrap(
            each.text, max(width, 20), subsequent_indent="  ", max_lines=2, placeholder=" …"
        )
    ]


def _chain(report: Report, name: str, pipeline: Pipeline, width: int) -> list[Text]:
    slow = {
        each.stage
        for each in report.findings
        if each.what == "bottleneck" and each.pipeline == name
    }
    about = [pipeline.stages.get(stage, Stage()) for stage in pipeline.chain]
    most = max([stage.queued for stage in about] + [10])
    cells = 8 if width < 100 else 20
    columns = [
        Column("stage", [("▶ " if s in slow else "  ") + s for s in pipeline.chain], 0, False),
        Column("queue", [str(stage.queued) for stage in about]),
        Column(" " * cells, [bar(stage.queued / most, cells) for stage in about], 5, False),
        Column("oldest", [_oldest(stage) for stage in about], 2),
        Column("busy", [f"{stage.busy_workers}/{stage.ready_workers}" for stage in about]),
        Column("in/s", [_rate(stage.in_per_s) for stage in about], 6),
        Column("out/s", [_rate(stage.out_per_s) for stage in about], 1),
        Column("batch", [_batch(stage) for stage in about], 3),
        Column("wait p95", [_p95(stage.wait_ms) for stage in about], 4),
        Column("run p95", [_p95(stage.run_ms) for stage in about], 4),
        Column("t(b) ms", [_estimate(stage) for stage in about], 8),
        Column("failed", [str(stage.failed) for stage in about], 7),
    ]
    styles = ["bold yellow" if stage in slow else "" for stage in pipeline.chain]
    return grid(columns, width, styles)


def _history(pipeline: Pipeline, width: int) -> list[Text]:
    """Requests and times of the last minutes."""
    history = pipeline.history
    if not history:
        return []
    said = _latency(pipeline.latency_ms)
    cells = max(min(width - LABEL_CELLS - 14, len(history), 120), 1)
    rates = [point.came + point.refused for point in history]
    times = [point.p99_ms for point in history]
    most_ms = max((ms for ms in times[-cells:] if ms is not None), default=0.0)
    rows = [
        ("requests", sparkline(rates, cells), f"up to {_rate(max(rates[-cells:]))}/s", "cyan"),
        ("p99", sparkline(times, cells), f"up to {_ms(most_ms)}", "magenta"),
    ]
    drawn = []
    for label, line, most, style in rows:
        text = Text(label.ljust(LABEL_CELLS), style="dim")
        text.append(line, style=f"not dim {style}")
        text.append(f" {most}")
        drawn.append(text)
    return [*([Text(said)] if said else []), *drawn]


def _latency(times: Times | None) -> str:
    if times is None:
        return ""
    return f"answered in {_ms(times.p50)} (p50), {_ms(times.p95)} (p95), {_ms(times.p99)} (p99)"


def _versions(pipeline: Pipeline, width: int) -> list[Text]:
    traffic = pipeline.traffic
    assert traffic is not None
    cells = min(30, max(width - 50, 10))
    drawn = []
    for each in traffic.versions:
        role = {traffic.canary: "canary", traffic.shadow: "shadow"}.get(each.version, "")
        line = Text(f"version {each.version:<10.10} ")
        line.append(bar(each.share / 100.0, cells), style="blue")
        line.append(f" {each.share:5.3g} %  ")
        line.append(each.state, style=STATES.get(each.state, ""))
        line.append(f"  {role}" if role else "")
        drawn.append(line)
    return drawn


def _workers(report: Report, pipeline: Pipeline, state: State, width: int) -> list[Text]:
    stages = {stage: place for place, stage in enumerate(pipeline.chain)}
    shown = [each for each in [*report.workers, *report.vacant] if each.stage in stages]
    if not shown:
        return []
    shown.sort(key=lambda worker: (stages[worker.stage], worker.host, worker.index, worker.pid))
    if state.sort != "stage":
        shown.sort(key=lambda worker: _sort_key(worker, state.sort), reverse=True)
    if state.reverse:
        shown.reverse()
    hosts = {worker.host for worker in shown}
    states = [worker.vacancy or worker.state for worker in shown]
    columns = [
        Column("worker", [f"{worker.stage}/{worker.index}" for worker in shown], 0, False),
        Column("pid", [str(worker.pid) for worker in shown], 1),
        Column("state", states, 0, False, [STATES.get(each, "") for each in states]),
        Column("busy", [f"{bar(w.busy, 6)} {w.busy:4.0%}" for w in shown], 0),
        Column("now", [_now(worker) for worker in shown], 2),
        Column("batches", [f"{worker.batches:,}" for worker in shown], 3),
        Column("items", [f"{worker.items:,}" for worker in shown], 5),
        Column("memory", [_mib(worker.rss_bytes) for worker in shown], 3),
        Column("age", [duration(worker.age_s) if worker.age_s else "-" for worker in shown], 6),
        Column("deaths", [str(worker.deaths or "-") for worker in shown], 4),
        Column("version", [w.version or "-" for w in shown], 2 if pipeline.traffic else 9, False),
        Column("device", [worker.device or "-" for worker in shown], 9, False),
    ]
    if len(hosts) > 1:
        columns.insert(2, Column("host", [worker.host for worker in shown], 8, False))
    return grid(columns, width)


def _sort_key(worker: Worker, sort: str) -> float:
    keys = {
        "busy": worker.busy,
        "batches": worker.batches,
        "memory": worker.rss_bytes,
        "age": worker.age_s,
    }
    return keys[sort]


def _event(event: Event, *, local: bool) -> Text:
    at = datetime.fromtimestamp(event.at, UTC)
    line = Text((at.astimezone() if local else at).strftime("%H:%M:%S "), style="dim")
    bad = event.what in ("worker_lost", "killer", "refusing_began", "guard_rolled_back")
    line.append(event.what.replace("_", " "), style="not dim red" if bad else "not dim")
    said = "  ".join(f"{name}={value}" for name, value in event.fields.items() if value != "")
    line.append("  " + " ".join(said.split()), style="not dim")
    return line


def _footer(report: Report, state: State, name: str) -> Text:
    sort = f"by {state.sort}{', reversed' if state.reverse else ''}"
    names = list(report.pipelines)
    place = f"pipeline {names.index(name) + 1} of {len(names)}  " if len(names) > 1 else ""
    line = Text(style="reverse")
    line.append(f" {'PAUSED  ' if state.paused else ''}{KEYS}  {place}{sort} ")
    return line


# ------------------------------------------------------------------ cells


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 or not per_s else f"{per_s:.1f}"


def _ms(ms: float) -> str:
    if ms >= 1000:
        return f"{ms / 1e3:.2g} s" if ms < 10_000 else f"{ms / 1e3:.0f} s"
    return f"{ms:.3g} ms" if ms < 100 else f"{ms:.0f} ms"


def _oldest(stage: Stage) -> str:
    return "-" if stage.oldest_s is None else _ms(stage.oldest_s * 1e3)


def _p95(times: Times | None) -> str:
    return "-" if times is None else _ms(times.p95)


def _batch(stage: Stage) -> str:
    return f"{stage.mean_batch:.3g}/{stage.max_batch_size}" if stage.mean_batch else "-"


def _estimate(stage: Stage) -> str:
    estimate = stage.estimate_ms
    return "-" if estimate is None else f"{estimate.a:.3g} + {estimate.c:.3g}·b"


def _now(worker: Worker) -> str:
    return f"{worker.batch} for {_ms(worker.batch_s * 1e3)}" if worker.batch else "-"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB" if size_bytes else "-"


def next_pipeline(report: Report, state: State, step: int) -> str:
    """The pipeline after the one that is shown, or before it."""
    names: Sequence[str] = list(report.pipelines)
    if not names:
        return ""
    place = names.index(chosen(report, state))
    return names[(place + step) % len(names)]


def pressed(key: str, report: Report, state: State) -> None:
    """What a key changes."""
    if key in ("\t", "RIGHT"):
        state.pipeline = next_pipeline(report, state, 1)
    elif key == "LEFT":
        state.pipeline = next_pipeline(report, state, -1)
    elif key.isdigit() and 0 < int(key) <= len(report.pipelines):
        state.pipeline = list(report.pipelines)[int(key) - 1]
    elif key == "s":
        state.sort = SORTS[(SORTS.index(state.sort) + 1) % len(SORTS)]
    elif key == "r":
        state.reverse = not state.reverse
    elif key in (" ", "p"):
        state.paused = not state.paused
