"""The tables of comparisons: rates, latencies and their ratios. Pure.

A cell with a fault in any round shows the fault, never a figure.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from benchmarks.report import MISSING, NO_RATIO, OURS, against
from benchmarks.rounds import Row


def header(columns: Mapping[str, str]) -> list[str]:
    """The names of the columns, of which `columns` are those that were measured: key and title."""
    ratios = [f"÷ {columns[peer]}" for peer in _peers(columns)]
    return ["work", "clients", *columns.values(), *ratios]


def lines(rows: Sequence[Row], columns: Mapping[str, str]) -> list[list[str]]:
    """The cells of each row, in the order of `header`."""
    return [
        [
            row.workload,
            str(row.clients),
            *[cell(row, server) for server in columns],
            *[_ratio(row, peer) for peer in _peers(columns)],
        ]
        for row in rows
    ]


def _peers(columns: Mapping[str, str]) -> list[str]:
    return [server for server in columns if server != OURS]


def cell(row: Row, server: str) -> str:
    """The rate and its times, or what kept them from being known."""
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
    return against(ratio, row.floors[peer])


def as_data(row: Row, columns: Mapping[str, str]) -> dict[str, object]:
    """A row with every single measurement, as plain data."""
    return {
        "workload": row.workload,
        "clients": row.clients,
        "ratios": {peer: row.ratio(OURS, peer) for peer in _peers(columns)},
        "floors": dict(row.floors),
        "measurements": {
            server: [dataclasses.asdict(one) for one in rounds]
            for server, rounds in row.measurements.items()
        },
    }
