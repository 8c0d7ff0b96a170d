"""Which worker is meant by what somebody typed, among those that the broker knows. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

LEAST_ID_CHARS = 4


class WorkerReport(Struct, frozen=True):
    """One worker, as far as it is needed; reports may grow."""

    id: str = ""
    stage: str = ""
    state: str = ""
    version: str = ""
    pid: int = 0
    host: str = ""
    index: int = 0

    @property
    def name(self) -> str:
        """As it is told to people."""
        version = f", version {self.version}" if self.version else ""
        return f"{self.stage}/{self.index} (pid {self.pid} at {self.host}{version})"


class Report(Struct, frozen=True):
    workers: list[WorkerReport] = []


class NoChoice(Exception):
    """What was typed names no worker, or several; the message lists those that there are."""


def parse(body: bytes) -> list[WorkerReport]:
    """Raises msgspec.MsgspecError where it is no report."""
    workers = msgspec.json.decode(body, type=Report).workers
    return sorted(workers, key=lambda worker: (worker.stage, worker.host, worker.index))


def choose(workers: Sequence[WorkerReport], word: str, host: str) -> WorkerReport:
    """The one whose pid, id, stage or stage/index this is; of several that are alike the one on
    this host. Raises NoChoice.
    """
    found = [worker for worker in workers if _is_meant(worker, word)]
    if len(found) > 1:
        found = [worker for worker in found if worker.host == host] or found
    if len(found) == 1:
        return found[0]
    there = ", ".join(worker.name for worker in (found or workers)[:10]) or "none"
    if found:
        raise NoChoice(f"{word!r} is {len(found)} workers; give the pid of one: {there}")
    raise NoChoice(f"no worker is {word!r}; there is {there}")


def _is_meant(worker: WorkerReport, word: str) -> bool:
    stage, slash, index = word.rpartition("/")
    if slash:
        return (worker.stage, str(worker.index)) == (stage, index)
    is_id = len(word) >= LEAST_ID_CHARS and worker.id.startswith(word.lower())
    return word in (worker.stage, str(worker.pid)) or is_id
