"""What the benchmark needs of a server, and what it tells one to serve.

Knows no server in particular.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks import processes


class Unavailable(Exception):
    """This server cannot be had on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of a workload as a server speaks it, and a part that its answer must have."""

    path: str
    body: str
    answer: str

    def holds(self, base_url: str) -> bool:
        """Whether the server answers the request, and rightly. Blanks do not count."""
        status, text = processes.fetch(base_url + self.path, self.body)
        return status == 200 and self.answer in "".join(text.split())


@dataclass(frozen=True, slots=True)
class Workload:
    """What is served: the folder with every server's plug-in, the chain, and the requests.

    `pipeline` names the whole chain where a server wants a name for it. `exchanges` is keyed by
    the name of the server.
    """

    title: str
    folder: Path
    pipeline: str
    chain: tuple[str, ...]
    exchanges: dict[str, Exchange]


@dataclass(frozen=True, slots=True)
class Target:
    """A deployment that answers: where wrk goes, with what, and the process ids by role."""

    url: str
    script_file: Path
    pids: dict[str, int]


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
