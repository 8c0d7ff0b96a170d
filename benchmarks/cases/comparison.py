"""Runs one case: every server serves each of its workloads, and they are measured in turn.

Knows no server and no workload in particular.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks import machine, plot, rates, rounds
from benchmarks.cases.case import Finding, tell
from benchmarks.peers.server import Server, Workload
from benchmarks.processes import StartFailed
from benchmarks.report import Picture, Section
from benchmarks.rounds import Loadable, Settings


@dataclass(frozen=True, slots=True)
class Part:
    """One workload of a case, and with how many clients it is measured.

    `floors` holds the ratios that Millstream should reach, by number of clients and server. What
    stands in `beside` needs no deployment, and is measured in turn with the servers. Measurements
    are so many `times` as long as others.
    """

    workload: Workload
    clients: tuple[int, ...]
    floors: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    beside: Mapping[str, Loadable] = field(default_factory=dict)
    times: int = 1

    def settings(self, given: Settings) -> Settings:
        """Those given on the command line, with what they leave to this part."""
        return Settings(given.rounds, given.seconds * self.times, given.clients or self.clients)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A case in which wrk's clients wait for their answers; titles for what stands beside.

    Of one with a `picture` there is one, in the file of this name.
    """

    title: str
    note: str
    parts: tuple[Part, ...]
    beside: Mapping[str, str] = field(default_factory=dict)
    picture: str = ""

    @property
    def needs_wrk(self) -> bool:
        return True

    def takes(self, server: str) -> bool:
        """Whether this server has a part in it."""
        return any(server in part.workload.exchanges for part in self.parts)

    def run(
        self, servers: Mapping[str, Server], titles: Mapping[str, str], settings: Settings
    ) -> Finding:
        """Measure all workloads, each with every server deployed and in turn."""
        rows: list[rounds.Row] = []
        failures: dict[str, str] = {}
        for part in self.parts:
            rows += _measure(part, servers, settings, failures)
        mine = {server: title for server, title in titles.items() if self.takes(server)}
        columns = mine | dict(self.beside)
        section = Section(
            title=self.title,
            note=self.note,
            servers=tuple(mine),
            how=f"{settings.rounds} rounds of {settings.seconds} s",
            load=f"wrk {machine.wrk_version()}",
            header=rates.header(columns),
            lines=rates.lines(rows, columns),
            data=[rates.as_data(row, columns) for row in rows],
            faults=[
                fault for row in rows for each in row.measurements if (fault := row.fault(each))
            ],
            busy_percent=[look for row in rows for look in row.busy_percent],
            # What stands beside the servers has rates too unlike theirs for one scale.
            picture=Picture(self.picture, "requests a second", plot.bars(rows, mine))
            if self.picture
            else None,
        )
        return Finding(section, failures)


def _measure(
    part: Part, servers: Mapping[str, Server], settings: Settings, failures: dict[str, str]
) -> list[rounds.Row]:
    title = part.workload.title
    with contextlib.ExitStack() as stack:
        targets: dict[str, Loadable] = {}
        for name, server in servers.items():
            if name not in part.workload.exchanges:
                continue
            tell(f"{title}: starting {server.title} …")
            try:
                targets[name] = stack.enter_context(server.deploy(part.workload))
            except StartFailed as error:
                failures.setdefault(name, f"{title}: {error}")
        if not targets:
            return []
        tell(f"{title}: measuring …")
        loaded = {**targets, **part.beside}
        return rounds.measure(title, loaded, part.settings(settings), part.floors)
