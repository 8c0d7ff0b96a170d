"""Turns sections into tables for the terminal, into Markdown, and into plain data for JSON.

Pure but for `write`, and knows nothing of how the figures in them were taken.
"""

import dataclasses
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table

from benchmarks.rounds import BUSY_PERCENT, Settings

OURS = "millstream"
MISSING = "missing"
NO_RATIO = "–"
INTRODUCTION = """\
# Side by side

Where a section says nothing else: requests a second (median ms, 99th percentile ms), one worker a stage, batches of at most 32: medians of the rounds, the servers in turn, the others idle beside it. ÷: the median of the rounds' ratios, Millstream over the other; where a floor is set for it, it stands beside it.
"""  # noqa: E501  # one paragraph of the page


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture beside the page: the name of its file, what it shows, and the file."""

    name: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one case found.

    `servers` are those that have a part in it, `how` is how the figures were taken, with the load
    from `load`. `lines` are the cells under `header`; `data` are the rows with all that is known.
    `faults` are those of measurements; `busy_percent` is how busy the machine was before each.
    """

    title: str
    note: str
    servers: tuple[str, ...]
    how: str
    load: str
    header: list[str]
    lines: list[list[str]]
    data: list[dict[str, object]]
    faults: list[str]
    busy_percent: list[float]
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run found. `titles`, `versions` and `failures` are keyed by server."""

    machine: dict[str, str | int]
    settings: Settings
    titles: dict[str, str]
    versions: dict[str, str]
    failures: dict[str, str] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether Millstream took part and no measurement has a fault. A peer may be missing."""
        measured = any(section.lines for section in self.sections)
        faults = [fault for section in self.sections for fault in section.faults]
        return measured and OURS not in self.failures and not faults


def busy_percent(sections: list[Section]) -> float:
    """How busy the machine was, on average, while nothing was measured."""
    looks = [look for section in sections for look in section.busy_percent]
    return statistics.fmean(looks) if looks else 0.0


def against(value: float, floor: float, *, digits: int = 2) -> str:
    """A figure beside the floor that is set for it."""
    return f"{value:.{digits}f} {'≥' if value >= floor else '<'} {floor:g}"


def provenance(results: Results, section: Section) -> list[str]:
    """How and where a section's figures were taken, and who is missing in it."""
    machine = results.machine
    servers = [
        f"{results.titles[name]} {results.versions[name]}"
        for name in section.servers
        if name in results.versions
    ]
    said = [
        f"{section.how}; {', '.join(servers)}; {section.load} on the same {machine['cores']} cores "
        f"({machine['processor']}, {machine['system']}, Python {machine['python']})."
    ]
    if (busy := busy_percent([section])) > BUSY_PERCENT:
        said.append(
            f"These figures are rough: between the measurements the machine was "
            f"{busy:.0f} % busy with other things."
        )
    said += [
        f"{results.titles[server]} is missing: {why.splitlines()[0]}"
        for server, why in results.failures.items()
        if server in section.servers
    ]
    return said


def table(section: Section) -> Table:
    """The table for a terminal."""
    shown = Table(title=section.title, title_justify="left")
    for name in section.header:
        shown.add_column(name, justify="left" if name == "work" else "right")
    for cells in section.lines:
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
    rule = ["---", *["---:" for _ in section.header[1:]]]
    rows = [f"| {' | '.join(cells)} |" for cells in [section.header, rule, *section.lines]]
    paragraphs = [f"## {section.title}", section.note, "\n".join(rows)]
    if section.picture:
        paragraphs.append(f"![{section.title}: {section.picture.caption}]({section.picture.name})")
    return "\n\n".join([*paragraphs, *provenance(results, section)]) + "\n"


def as_data(results: Results) -> dict[str, object]:
    """The same, with every single measurement, as plain data."""
    return {
        "machine": results.machine,
        "busy_percent": round(busy_percent(results.sections), 1),
        "settings": dataclasses.asdict(results.settings),
        "versions": results.versions,
        "failures": results.failures,
        "rows": [
            {"section": section.title, **row}
            for section in results.sections
            for row in section.data
        ],
    }


def write(path: Path, text: str) -> None:
    """Write a file of results, and its folder where that is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
