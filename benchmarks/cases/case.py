"""What the command needs of a case."""

import sys
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from benchmarks.peers.server import Server
from benchmarks.report import OURS, Section
from benchmarks.rounds import Settings


class Finding(NamedTuple):
    """What a case found, and what kept servers out of it, by server."""

    section: Section
    failures: dict[str, str]


class Case(Protocol):
    """What stands under one heading."""

    @property
    def needs_wrk(self) -> bool:
        """Whether its load comes from wrk."""
        ...

    def takes(self, server: str) -> bool:
        """Whether this server has a part in it."""
        ...

    def run(
        self, servers: Mapping[str, Server], titles: Mapping[str, str], settings: Settings
    ) -> Finding:
        """Measure these servers. `titles` are those of all that were asked for."""
        ...


def ours_alone(server: str) -> bool:
    """The `takes` of a case that measures Millstream and nobody else."""
    return server == OURS


def tell(what: str) -> None:
    """How far it is, for those who wait."""
    print(what, file=sys.stderr, flush=True)
