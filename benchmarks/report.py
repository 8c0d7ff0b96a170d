"""Turns results into tables for the terminal, into Markdown, and into plain data for JSON.

Pure but for `write`. A cell with a fault in any round shows the fault, never a figure.
"""

import dataclasses
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.rounds import BUSY_PERCENT, Row, Settings

OURS = "millstream"
MISSING = "missing"
NO_RATIO = "–"
INTRODUCTION = """\
# Side by side

Requests a second (median ms, 99th percentile ms), one worker a stage, batches of at most 32: medians of the rounds, the servers in turn, the others idle beside it. ÷: the median of the rounds' ratios, Millstream over the other; where a floor is set for it, it stands beside it.
"""  # noqa: E501  # one paragraph of the page


@dataclass(frozen=True, slots=True)
class Section:
    """What one case found. `columns` are the servers in their order: key and title."""

    title: str
    note: str
    columns: Mapping[str, str]
    rows: list[Row]
    picture: str = ""

    @property
    def peers(self) -> list[str]:
        return [server for server in self.columns if server != OURS]


@dataclass(frozen=True, slots=True)
class Results:
    """All that one comparison found. `titles`, `versions` and `failures` are keyed by server."""

    machine: dict[str, str | int]
    settings: Settings
    titles: dict[str, str]
    versions: dict[str, str]
    failures: dict[str, str]
    sections: list[Section]

    @property
    def rows(self) -> list[Row]:
        return [row for section in self.sections for row in section.rows]

    @property
    def sound(self) -> bool:
        """Whether Millstream took part and no measurement has a fault. A peer may be missing."""
        faults = [row.fault(server) for row in self.rows for server in row.measurements]
        return bool(self.rows) and OURS not in self.failures and not any(faults)


def busy_percent(rows: list[Row]) -> float:
    """How busy the machine was, on average, while nothing was measured."""
    looks = [look for row in rows for look in row.busy_percent]
    return statistics.fmean(looks) if looks else 0.0


def header(section: Section) -> list[str]:
    """The names of the columns."""
    ratios = [f"÷ {section.columns[peer]}" for peer in section.peers]
    return ["work", "clients", *section.columns.values(), *ratios]


def lines(section: Section) -> list[list[str]]:
    """The cells of each row, in the order of `header`."""
    return [
        [
            row.workload,
            str(row.clients),
            *[_cell(row, server) for server in section.columns],
            *[_ratio(row, peer) for peer in section.peers],
        ]
        for row in section.rows
    ]


def _cell(row: Row, server: str) -> str:
    if server not in row.measurements:
        return MISSING
    if fault := row.fault(server):
        return f"invalid: {fault}"
    one = row.median(server)
    return f"{one.requests_per_s:,.0f} ({_ms(one.p50_ms)}, {_ms(one.p99_ms)})"


def _ms(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _ratio(row: Row, peer: str) -> str:
    ratio = row.ratio(OURS, peer)
    if ratio is None:
        return NO_RATIO
    if peer not in row.floors:
        return f"{ratio:.2f}"
    sign = "≥" if ratio >= row.floors[peer] else "<"
    return f"{ratio:.2f} {sign} {row.floors[peer]:g}"


def provenance(results: Results, section: Section) -> list[str]:
    """How and where a section's figures were taken, and who is missing in it."""
    machine, settings = results.machine, results.settings
    servers = [
        f"{results.titles[name]} {results.versions[name]}"
        for name in section.columns
        if name in results.versions
    ]
    said = [
        f"{settings.rounds} rounds of {settings.seconds} s; {', '.join(servers)}; "
        f"wrk {machine['wrk']} on the same {machine['cores']} cores "
        f"({machine['processor']}, {machine['system']}, Python {machine['python']})."
    ]
    if (busy := busy_percent(section.rows)) > BUSY_PERCENT:
        said.append(
            f"These figures are rough: between the measurements the machine was "
            f"{busy:.0f} % busy with other things."
        )
    said += [
        f"{results.titles[server]} is missing: {why.splitlines()[0]}"
        for server, why in results.failures.items()
        if server in section.columns
    ]
    return said


def table(section: Section) -> Table:
    """The table for a terminal."""
    shown = Table(title=section.title, title_justify="left")
    for name in header(section):
        shown.add_column(name, justify="left" if name == "work" else "right")
    for cells in lines(section):
        shown.add_row(*cells)
    return shown


def markdown(results: Results, page: str = "") -> str:
    """The Markdown page `page` with these results' sections in place of its own of that name."""
    sections = dict(_split(page))
    sections |= {section.title: _markdown(results, section) for section in results.sections}
    return "\n".join([INTRODUCTION, *sections.values()])


def _split(page: str) -> list[tuple[str, str]]:
    """The sections of a page that `markdown` made: heading and text."""
    parts = page.split("\n## ")[1:]
    return [(part.partition("\n")[0], f"## {part.rstrip()}\n") for part in parts]


def _markdown(results: Results, section: Section) -> str:
    names = header(section)
    rule = ["---", *["---:" for _ in names[1:]]]
    rows = [f"| {' | '.join(cells)} |" for cells in [names, rule, *lines(section)]]
    paragraphs = [f"## {section.title}", section.note, "\n".join(rows)]
    if section.picture:
        paragraphs.append(f"![{section.title}: requests a second]({section.picture})")
    return "\n\n".join([*paragraphs, *provenance(results, section)]) + "\n"


def as_data(results: Results) -> dict[str, object]:
    """The same, with every single measurement, as plain data."""
    return {
        "machine": results.machine,
        "busy_percent": round(busy_percent(results.rows), 1),
        "settings": dataclasses.asdict(results.settings),
        "versions": results.versions,
        "failures": results.failures,
        "rows": [_row_data(section, row) for section in results.sections for row in section.rows],
    }


def _row_data(section: Section, row: Row) -> dict[str, object]:
    return {
        "section": section.title,
        "workload": row.workload,
        "clients": row.clients,
        "ratios": {peer: row.ratio(OURS, peer) for peer in section.peers},
        "floors": dict(row.floors),
        "measurements": {
            server: [dataclasses.asdict(one) for one in rounds]
            for server, rounds in row.measurements.items()
        },
    }


def write(path: Path, text: str) -> None:
    """Write a file of results, and its folder where that is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
