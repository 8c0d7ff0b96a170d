"""One place of a crew: who fills it, and who is to.

process     serves, or loads to serve
successor   loads beside it, to take its place when it is ready
leaving     had its place before, and drains
"""

from msgspec import Struct, field

from workers.backoff import Backoff
from workers.devices import Device
from workers.process import WorkerProcess


class Post(Struct, eq=False):
    """See the module."""

    index: int
    device: Device
    env: dict[str, str]
    process: WorkerProcess | None = None
    successor: WorkerProcess | None = None
    leaving: WorkerProcess | None = None
    backoff: Backoff = field(default_factory=Backoff)
    ended_by: str = "first"
    """What ended its latest process: why there is another one."""
    cpu_s: float = 0.0
    """Processor time of those that have been here before."""
    was_lost: bool = False
    """Whether a worker of it has ever ended that was not to."""

    is_held: bool = False
    """Whether nobody is to fill it, as an operator wants."""

    @property
    def living(self) -> list[WorkerProcess]:
        """Those that have not been reaped."""
        return [each for each in (self.process, self.successor, self.leaving) if each is not None]

    @property
    def is_warm(self) -> bool:
        """Whether its worker has got through setup and warm-up."""
        return self.process is not None and self.process.warm_since is not None

    @property
    def is_settled(self) -> bool:
        """Whether it has one worker, which a broker has taken in and nobody has asked to leave."""
        return (
            self.process is not None
            and self.process.is_welcome
            and self.process.released_since is None
            and self.living == [self.process]
        )

    def promote(self) -> WorkerProcess | None:
        """The successor takes over; returns whom it relieves."""
        self.leaving, self.process, self.successor = self.process, self.successor, None
        return self.leaving

    def vacate(self, process: WorkerProcess, now: float) -> None:
        """Whoever filled it has ended. A successor takes over; where there is none, another is to
        be started when the backoff says so.
        """
        self.process, self.successor = self.successor, None
        if process.released_since is not None:  # it was to end
            self.backoff.start_at = now
            return
        self.was_lost = True
        ready_s = now - process.warm_since if process.warm_since is not None else 0.0
        self.backoff.died(process.identity, now, ready_s=ready_s)
        if process.is_excused:
            self.backoff.excuse(process.identity, now)

    def excuse(self, worker: bytes, now: float) -> bool:
        """This worker's death, past or to come, is a request's fault. Returns whether it is known
        here.
        """
        for process in self.living:
            if process.identity == worker:
                process.is_excused = True
                return True
        return self.backoff.excuse(worker, now)
