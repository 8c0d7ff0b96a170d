"""Runs one case: every server serves each of its workloads, and they are measured in turn.

Knows no server and no workload in particular.
"""

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks import rounds
from benchmarks.peers.server import Server, Workload
from benchmarks.processes import StartFailed
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
class Case:
    """What stands under one heading: what is measured, and titles for what stands beside."""

    title: str
    note: str
    parts: tuple[Part, ...]
    beside: Mapping[str, str] = field(default_factory=dict)

    def takes(self, server: str) -> bool:
        """Whether this server has a part in it."""
        return any(server in part.workload.exchanges for part in self.parts)


def run(
    case: Case, servers: Mapping[str, Server], settings: Settings
) -> tuple[list[rounds.Row], dict[str, str]]:
    """Measure all workloads: the rows, and what kept servers out, by server."""
    rows: list[rounds.Row] = []
    failures: dict[str, str] = {}
    for part in case.parts:
        title = part.workload.title
        with contextlib.ExitStack() as stack:
            targets: dict[str, Loadable] = {}
            for name, server in servers.items():
                if name not in part.workload.exchanges:
                    continue
                _tell(f"{title}: starting {server.title} …")
                try:
                    targets[name] = stack.enter_context(server.deploy(part.workload))
                except StartFailed as error:
                    failures.setdefault(name, f"{title}: {error}")
            if targets:
                _tell(f"{title}: measuring …")
                loaded = {**targets, **part.beside}
                rows += rounds.measure(title, loaded, part.settings(settings), part.floors)
    return rows, failures


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
