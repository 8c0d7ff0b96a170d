"""The tables of overload: what is answered in time where less or more is sent than can be. Pure.

Of what is sent below the capacity all could be answered in time, above it as much as the capacity:
a server's share is that of what could be.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.open_loop import Figures
from benchmarks.report import MISSING, NO_RATIO, OURS, against

# What Millstream should reach: the share below the capacity and above it, and how soon half of
# those who are refused know it.
BELOW_FLOOR = 0.99
ABOVE_FLOOR = 0.97
REFUSAL_MS = 10.0
# The peer that Millstream should never fall behind.
RIVAL = "triton-tuned"
RIVAL_FLOOR = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """One workload under one load, in times of its capacity: what each server did.

    `busy_percent` says how busy the machine was before each measurement.
    """

    workload: str
    load: float
    capacity_per_s: float
    figures: dict[str, Figures] = field(default_factory=dict)
    busy_percent: list[float] = field(default_factory=list)

    @property
    def floor(self) -> float:
        """The share that Millstream should reach."""
        return BELOW_FLOOR if self.load < 1 else ABOVE_FLOOR

    def is_sound(self, server: str) -> bool:
        """Whether there are figures of it, and they count."""
        return server in self.figures and not self.figures[server].fault

    def point(self, server: str) -> tuple[float, float]:
        """What was sent and what was in time, in times of the capacity. Only where sound."""
        found = self.figures[server]
        return found.sent_per_s / self.capacity_per_s, found.in_time_per_s / self.capacity_per_s

    def share(self, server: str) -> float:
        """What was in time, of what could be. Only where sound."""
        found = self.figures[server]
        return found.in_time_per_s / min(found.sent_per_s, self.capacity_per_s)

    def ratio(self, server: str, other: str) -> float | None:
        """The share of `server` over that of `other`; None where one is not sound or nothing."""
        if not (self.is_sound(server) and self.is_sound(other) and self.share(other)):
            return None
        return self.share(server) / self.share(other)


def header(columns: Mapping[str, str]) -> list[str]:
    """The names of the columns, of which `columns` are the servers."""
    rival = [f"÷ {columns[RIVAL]}"] if RIVAL in columns else []
    return ["work", "load", *columns.values(), *rival]


def lines(rows: Sequence[Row], columns: Mapping[str, str]) -> list[list[str]]:
    """The cells of each row, in the order of `header`."""
    return [
        [
            row.workload,
            f"{row.load:g}",
            *[_cell(row, server) for server in columns],
            *([_ratio(row)] if RIVAL in columns else []),
        ]
        for row in rows
    ]


def _cell(row: Row, server: str) -> str:
    if server not in row.figures:
        return MISSING
    found = row.figures[server]
    if found.fault:
        return f"invalid: {found.fault}"
    share, refusal_ms = row.share(server), found.refusal_p50_ms
    if server != OURS:
        return f"{share:.3f} ({milliseconds(refusal_ms)})"
    shown = against(round(share, 3), row.floor, digits=3)
    if refusal_ms is None:
        return f"{shown} ({milliseconds(None)})"
    sign = "<" if refusal_ms < REFUSAL_MS else "≥"
    return f"{shown} ({milliseconds(refusal_ms)} {sign} {REFUSAL_MS:g})"


def milliseconds(value: float | None) -> str:
    """A median of refusals, where anything was refused."""
    return NO_RATIO if value is None else f"{value:.1f}"


def _ratio(row: Row) -> str:
    ratio = row.ratio(OURS, RIVAL)
    return NO_RATIO if ratio is None else against(round(ratio, 2), RIVAL_FLOOR, digits=2)


def as_data(row: Row) -> dict[str, object]:
    """All that is known of a row, as plain data."""
    return {
        "workload": row.workload,
        "load": row.load,
        "capacity_per_s": row.capacity_per_s,
        "floor": row.floor,
        "shares": {server: row.share(server) for server in row.figures if row.is_sound(server)},
        "figures": {server: dataclasses.asdict(found) for server, found in row.figures.items()},
    }
