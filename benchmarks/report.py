"""Turns results into a table for the terminal, into Markdown, and into plain data for JSON.

Pure but for `write`. A cell with a fault in any round shows the fault, never a figure.
"""

import dataclasses
import statistics
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.rounds import Row, Settings

OURS = "millstream"
MISSING = "missing"
NO_RATIO = "–"
# What a quiet machine and idle servers come to is well below this.
BUSY_PERCENT = 5.0


@dataclass(frozen=True, slots=True)
class Results:
    """All that one comparison found. `titles`, `versions` and `failures` are keyed by server."""

    machine: dict[str, str | int]
    settings: Settings
    titles: dict[str, str]
    versions: dict[str, str]
    failures: dict[str, str]
    rows: list[Row]

    @property
    def busy_percent(self) -> float:
        """How busy the machine was, on average, while nothing was measured."""
        looks = [look for row in self.rows for look in row.busy_percent]
        return statistics.fmean(looks) if looks else 0.0

    @property
    def sound(self) -> bool:
        """Whether Millstream took part and no measurement has a fault. A peer may be missing."""
        faults = [row.fault(server) for row in self.rows for server in row.measurements]
        return bool(self.rows) and OURS not in self.failures and not any(faults)


def header(results: Results) -> list[str]:
    """The names of the columns."""
    servers = [results.titles[server] for server in results.titles]
    return ["work", "clients", *servers, *[f"÷ {results.titles[peer]}" for peer in _peers(results)]]


def lines(results: Results) -> list[list[str]]:
    """The cells of each row, in the order of `header`."""
    return [
        [
            row.workload,
            str(row.clients),
            *[_cell(row, server) for server in results.titles],
            *[_ratio(row, peer) for peer in _peers(results)],
        ]
        for row in results.rows
    ]


def _peers(results: Results) -> list[str]:
    return [server for server in results.titles if server != OURS]


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
    return NO_RATIO if ratio is None else f"{ratio:.2f}"


def summary(results: Results) -> list[str]:
    """What the table's figures are, how and where they were taken, and who is missing."""
    machine, settings = results.machine, results.settings
    servers = [f"{results.titles[name]} {version}" for name, version in results.versions.items()]
    said = [
        f"Requests a second (median ms, 99th percentile ms): medians of {settings.rounds} rounds "
        f"of {settings.seconds} s, the servers in turn, the others idle beside it. "
        "÷: the median of the rounds' ratios, Millstream over the other.",
        f"{', '.join(servers)}; wrk {machine['wrk']} on the same {machine['cores']} cores "
        f"({machine['processor']}, {machine['system']}, Python {machine['python']}).",
    ]
    if results.busy_percent > BUSY_PERCENT:
        said.append(
            f"These figures are rough: between the measurements the machine was "
            f"{results.busy_percent:.0f} % busy with other things."
        )
    said += [
        f"{results.titles[server]} is missing: {why.splitlines()[0]}"
        for server, why in results.failures.items()
    ]
    return said


def table(results: Results) -> Table:
    """The table for a terminal."""
    shown = Table()
    for name in header(results):
        shown.add_column(name, justify="left" if name == "work" else "right")
    for cells in lines(results):
        shown.add_row(*cells)
    return shown


def markdown(results: Results) -> str:
    """The same as a Markdown page."""
    names = header(results)
    rule = ["---", *["---:" for _ in names[1:]]]
    rows = [f"| {' | '.join(cells)} |" for cells in [names, rule, *lines(results)]]
    return "\n\n".join(["# Side by side", *summary(results), "\n".join(rows)]) + "\n"


def as_data(results: Results) -> dict[str, object]:
    """The same, with every single measurement, as plain data."""
    return {
        "machine": results.machine,
        "busy_percent": round(results.busy_percent, 1),
        "settings": dataclasses.asdict(results.settings),
        "versions": results.versions,
        "failures": results.failures,
        "rows": [
            {
                "workload": row.workload,
                "clients": row.clients,
                "ratios": {peer: row.ratio(OURS, peer) for peer in _peers(results)},
                "measurements": {
                    server: [dataclasses.asdict(one) for one in rounds]
                    for server, rounds in row.measurements.items()
                },
            }
            for row in results.rows
        ],
    }


def write(path: Path, text: str) -> None:
    """Write a file of results, and its folder where that is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
