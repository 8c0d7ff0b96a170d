"""What the benchmark needs of a server, and what it tells one to serve.

Knows no server in particular.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks import load, processes
from benchmarks.load import Measurement

JSON = {"Content-Type": "application/json"}


class Unavailable(Exception):
    """This server cannot be had on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of a workload as a server speaks it, and a part that its answer must have."""

    path: str
    body: bytes
    answer: str
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)

    def holds(self, base_url: str) -> bool:
        """Whether the server answers the request, and rightly. Blanks do not count."""
        status, text = processes.fetch(base_url + self.path, self.body, self.headers)
        return status == 200 and self.answer in "".join(text.split())


@dataclass(frozen=True, slots=True)
class Workload:
    """What is served: the folder with every server's plug-in, the chain, and the requests.

    `pipeline` names the whole chain where a server wants a name for it. `exchanges` is keyed by
    the name of the server; one that has none is not asked to serve this. `classes` names the class
    of a stage where Millstream's plug-in file holds several. `variables` stand in the environment
    of every plug-in, and of Millstream's own processes. `file`, `scripts` by stage,
    `broker_options` and `gateway_options` are for Millstream alone, where they are not the usual
    ones.
    """

    title: str
    folder: Path
    pipeline: str
    chain: tuple[str, ...]
    exchanges: dict[str, Exchange]
    classes: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    scripts: Mapping[str, str] = field(default_factory=dict)
    broker_options: tuple[str, ...] = ()
    gateway_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A deployment that answers: where load goes, with what, and the process ids by role.

    wrk takes the request from `script_file`.
    """

    url: str
    exchange: Exchange
    script_file: Path
    pids: dict[str, int]

    def load(self, *, clients: int, seconds: int) -> Measurement:
        """Load it with so many connections for so long."""
        return load.run(self.url, self.script_file, clients=clients, seconds=seconds)


class Server(Protocol):
    """One of the servers that are compared."""

    @property
    def name(self) -> str:
        """The key of its exchanges and results."""
        ...

    @property
    def title(self) -> str:
        """How tables call it."""
        ...

    def prepare(self) -> str:
        """Install what is missing and return the version. Raises Unavailable."""
        ...

    def deploy(self, workload: Workload) -> AbstractContextManager[Target]:
        """Serve the workload, one worker a stage, until left. Raises StartFailed on entering."""
        ...
