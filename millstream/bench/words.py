"""What a run found, as lines and tables for a terminal or a pipe. Pure."""

from collections.abc import Sequence

from millstream.bench.result import Figures, Result, changes, is_met, relative
from millstream.cli.tables import Table

BLOCKS = " ▏▎▍▌▋▊▉█"
BAR_CELLS = 30


def bar(share: float, cells: int = BAR_CELLS) -> str:
    """A bar of so much of its length, in eighths of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (BLOCKS[rest] if rest else "")


def one_run(result: Result) -> list[Table]:
    """All that is told of a single run."""
    figures = result.figures
    lines = [
        f"{result.url}: {figures.what}, {figures.seconds:g} s",
        f"  sent {figures.sent:,} ({figures.sent_per_s:,.1f}/s), answered 2xx {figures.ok:,} "
        f"({figures.ok_per_s:,.1f}/s)",
    ]
    if figures.slo_ms is not None:
        lines.append(
            f"  within {figures.slo_ms:g} ms: {figures.in_time:,} ({result.good_share:.2%} of what "
            f"was sent), a goodput of {figures.goodput_per_s:,.1f}/s"
        )
    if failed := _failures(figures):
        lines.append(f"  {failed}")
    lines += [f"  note: {note}" for note in figures.notes]
    lines.append(_meaning(result))
    return [Table(lines), _latencies(figures)]


def _failures(figures: Figures) -> str:
    said = [
        f"{count:,} answered {status}"
        for status, count in figures.statuses.items()
        if not 200 <= status < 300
    ]
    said += [f"{count:,} of code {code}" for code, count in sorted(figures.codes.items())]
    said += [f"{figures.timeouts:,} given up after --timeout"] if figures.timeouts else []
    said += [f"{figures.broken:,} whose connection ended"] if figures.broken else []
    return ", ".join(said)


def _meaning(result: Result) -> str:
    if result.rate_per_s:
        return "  times of 2xx, from when each request was due (so that a stall is not left out):"
    return (
        "  times of 2xx, from when each request was sent: of clients who wait for each other, and "
        "no users' (--rate tells of these):"
    )


def _latencies(figures: Figures) -> Table:
    times = [(name, ms) for name, ms in figures.percentiles_ms.items() if ms is not None]
    most = max((ms for _, ms in times), default=0.0) or 1.0
    return Table([], ("", "ms", " "), [(name, ms_of(ms), bar(ms / most)) for name, ms in times])


def several_runs(results: Sequence[Result], share_percent: float) -> list[Table]:
    """A sweep: a line for each rate."""
    rows = []
    for result in results:
        figures = result.figures
        met = ("yes" if is_met(result, share_percent) else "no") if figures.slo_ms else "-"
        rows.append(
            (
                f"{result.rate_per_s or result.clients:g}",
                f"{figures.ok_per_s:,.1f}",
                f"{figures.goodput_per_s:,.1f}",
                f"{result.good_share:.2%}",
                ms_of(figures.percentiles_ms.get("p50")),
                ms_of(figures.percentiles_ms.get("p99")),
                met,
                bar(result.good_share, 20),
            )
        )
    lines = [f"{results[0].url}, {results[0].figures.seconds:g} s each"]
    slo_ms = results[0].figures.slo_ms
    if slo_ms is not None:
        lines.append(f"  SLO: {share_percent:g} % of what is sent within {slo_ms:g} ms")
    lines += [
        f"  note, at {result.rate_per_s:g}: {note}"
        for result in results
        for note in result.figures.notes
    ]
    head = ("rate", "2xx/s", "goodput/s", "in time", "p50 ms", "p99 ms", "SLO met", " ")
    return [Table(lines, head, rows)]


def compared(before: Result, after: Result) -> Table:
    """Two runs beside each other."""
    rows = []
    for name, old, new in changes(before, after):
        change = relative(old, new)
        rows.append((name, ms_of(old), ms_of(new), "-" if change is None else f"{change:+.1%}"))
    lines = [f"before: {before.figures.what} at {before.url}", f"after: {after.figures.what}"]
    if before.figures.what != after.figures.what:
        lines.append("  their loads differ, so their times do not tell which is faster")
    return Table(lines, ("figure", "before", "after", "change"), rows)


def ms_of(number: float | None) -> str:
    """In three digits or more."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
