"""A flood from one client: whether another one, who asks for little, is still served in time.

Millstream alone, since the others know no clients.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks import offers, rounds
from benchmarks.cases import draws
from benchmarks.cases.case import Finding, ours_alone, tell
from benchmarks.cases.draws import Draw
from benchmarks.goodput import milliseconds
from benchmarks.offers import Offer
from benchmarks.open_loop import Figures, Plan
from benchmarks.peers.server import Server
from benchmarks.processes import StartFailed
from benchmarks.report import OURS, Section, against
from benchmarks.rounds import Settings

# So slow that neither the load generators nor the gateway come near their own limits.
TIMES = Draw(a_ms=20.0, c_ms=1.0, deadline_ms=234.0)
# What each client sends, in times of the capacity.
LOADS = {"a": 20.0, "b": 0.1}
QUIET = "b"
FLOOR = 0.95
# Few are sent by the one that counts, so that a measurement is so many times as long as others.
TIMES_AS_LONG = 3
# Both generators are under way by then.
WARM_UP_S = 2.0
NOTE = (
    "Two clients with keys of their own and the same priority: a sends 20 times the capacity, b a "
    "tenth of it. The share of what each sent that was answered in time, and the median ms of "
    "refusals."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One chain: what each client found, and how busy the machine was before."""

    workload: str
    figures: dict[str, Figures]
    busy_percent: float


class Flood:
    """The case."""

    needs_wrk = False

    takes = staticmethod(ours_alone)

    def run(
        self, servers: Mapping[str, Server], titles: Mapping[str, str], settings: Settings
    ) -> Finding:
        """Measure once in each chain."""
        seconds = settings.seconds * TIMES_AS_LONG
        rows: list[Row] = []
        failures: dict[str, str] = {}
        for chain in draws.PIPELINES if OURS in servers else ():
            try:
                rows.append(_measure(chain, servers[OURS], seconds))
            except StartFailed as error:
                failures[OURS] = str(error)
        section = Section(
            title="A flood from one client",
            note=NOTE,
            servers=(OURS,),
            how=f"{seconds} s",
            load="two of benchmarks/poisson.py",
            header=[
                "work",
                *[f"{client}, {load:g} × the capacity" for client, load in LOADS.items()],
            ],
            lines=lines(rows),
            data=[_as_data(row) for row in rows],
            faults=[found.fault for row in rows for found in row.figures.values() if found.fault],
            busy_percent=[row.busy_percent for row in rows],
        )
        return Finding(section, failures)


def _measure(chain: str, server: Server, seconds: float) -> Row:
    workload = draws.workload(TIMES, chain)
    tell(f"{workload.title}: a flood …")
    clients = [
        Offer(
            Plan(
                rate_per_s=load * TIMES.capacity_per_s,
                seconds=seconds,
                deadline_s=TIMES.deadline_ms / 1e3,
                seed=seed,
                warm_up_s=WARM_UP_S,
            ),
            {"X-Api-Key": client},
        )
        for seed, (client, load) in enumerate(LOADS.items())
    ]
    with server.deploy(workload) as target:
        busy_percent = rounds.quiet()
        figures = offers.measure(target, clients)
    return Row(workload.title, dict(zip(LOADS, figures, strict=True)), busy_percent)


def lines(rows: list[Row]) -> list[list[str]]:
    """The cells: the chain, and what was in time of what each client sent."""
    return [
        [row.workload, *[_cell(client, found) for client, found in row.figures.items()]]
        for row in rows
    ]


def _cell(client: str, found: Figures) -> str:
    if found.fault:
        return f"invalid: {found.fault}"
    share = found.in_time / found.sent
    shown = against(share, FLOOR, digits=3) if client == QUIET else f"{share:.3f}"
    return f"{shown} ({milliseconds(found.refusal_p50_ms)})"


def _as_data(row: Row) -> dict[str, object]:
    figures = {client: dataclasses.asdict(found) for client, found in row.figures.items()}
    return {"workload": row.workload, "floor": FLOOR, "figures": figures}


CASE = Flood()
