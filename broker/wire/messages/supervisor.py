"""Between supervisors and the broker: how workers and versions are, and what they are to be."""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from broker.wire.messages.kinds import kind
from broker.wire.messages.terms import Name, RoutingId


class WorkerHealth(IntEnum):
    """What a supervisor reads from the operating system about one of its workers."""

    ALIVE = 0
    STOPPED = 1  # by a signal or a debugger
    GONE = 2  # exited, killed, or a zombie


class VersionState(IntEnum):
    """Where a supervisor stands with a version of its model repository."""

    FOUND = 0  # complete on disk, and not loaded
    LOADING = 1
    READY = 2  # a worker of it is warm, and none is waited for that has not failed before
    FAILED = 3  # it cannot be read, loaded or warmed up
    RETIRING = 4  # its workers drain


class TendKind(IntEnum):
    """What an operator wants of a worker's place."""

    RESTART = 1  # a successor; or anybody, where nobody is
    DRAIN = 2  # nobody, until a restart is asked for


# ------------------------------------------------------------------ to the broker


class SupervisorHello(Struct, array_like=True, tag=kind, gc=False):
    """`stage` is "" until one of its workers has imported the script and knows."""

    protocol: int
    stage: Name = ""
    pipeline: Name = ""
    version: Name = ""
    host: str = ""
    pid: int = 0
    script: str = ""
    has_models: bool = False  # it has a model repository, and loads the versions that are wanted


class VersionReport(Struct, array_like=True, gc=False):
    """A version in a supervisor's model repository. `detail` says why it failed."""

    version: Name
    state: int
    detail: str = ""


class WorkerReport(Struct, array_like=True, gc=False):
    worker: RoutingId  # empty: none in particular; then `failure` says why there is none
    health: int
    detail: str = ""  # "exit code 1", "signal 9", …
    out_of_memory: bool = False  # the kernel killed it for want of memory
    warm: bool = False  # it has got through setup and warm-up
    failure: str = ""  # why its script could not be loaded or set up
    cpu_s: float = 0.0  # that it has used since it began
    rss_bytes: int = 0  # memory that it takes; 0: not known
    leaving: str = ""  # why it is to leave, soon or when its successor is ready
    begun: int = 0  # if it is gone: the lease of this epoch that it began last, 0 for none


class SupervisorBeat(Struct, array_like=True, tag=kind, gc=False):
    epoch: int
    reports: list[WorkerReport] = []
    draining: bool = False
    versions: list[VersionReport] = []  # all that its model repository has


# ------------------------------------------------------------------ from the broker


class Kill(Struct, array_like=True, tag=kind, gc=False):
    """This worker hangs: SIGKILL and replace it."""

    epoch: int
    worker: RoutingId
    reason: str


class Want(Struct, array_like=True, tag=kind, gc=False):
    """These versions are to be loaded, whatever the repository's policy says: requests are sent to
    them, or soon will be. It replaces what was wanted before. Those that are `rejected` were rolled
    back: a policy that asks for the newest passes over them.
    """

    epoch: int
    versions: list[Name]
    rejected: list[Name] = []


class Tend(Struct, array_like=True, tag=kind, gc=False):
    """An operator wants this of the place with this index, among workers of this version. It holds
    for this life of the broker.
    """

    epoch: int
    index: int
    version: Name
    wish: int
    reason: str


class Excuse(Struct, array_like=True, tag=kind, gc=False):
    """This worker died of a request that kills: no sign that the next will die, too."""

    epoch: int
    worker: bytes


FromSupervisor: TypeAlias = SupervisorHello | SupervisorBeat
ToSupervisor: TypeAlias = Kill | Excuse | Want | Tend
