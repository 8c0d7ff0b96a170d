"""What is sent in one run: the settings that the command hands to the generating processes."""

from msgspec import Struct

from millstream.bench.arrivals import Arrivals
from millstream.bench.target import Target

NO_SLO_S = float("1e9")


class Load(Struct, frozen=True, kw_only=True):
    """Open where `rate_per_s` is more than 0, else closed with so many `clients`.

    What is due within `seconds` after the warm-up counts; `requests` more than 0 ends it sooner.
    """

    target: Target
    rate_per_s: float = 0.0
    clients: int = 0
    arrivals: Arrivals = Arrivals.POISSON
    seconds: float = 10.0
    requests: int = 0
    warm_up_s: float = 1.0
    slo_s: float = NO_SLO_S
    timeout_s: float = 30.0
    connections: int = 1000
    seed: int = 1
    processes: int = 1

    @property
    def is_open(self) -> bool:
        """Whether requests are due at moments of a plan."""
        return self.rate_per_s > 0.0


class Part(Struct, frozen=True, kw_only=True):
    """What one of several processes does of a load."""

    load: Load
    part: int


class Progress(Struct, frozen=True, tag=True):
    """How far a process has come: what it has sent, and what of it has ended."""

    begun: int
    ended: int


class Ready(Struct, frozen=True, tag=True):
    """It is connected, and waits to be told when to start."""


class Start(Struct, frozen=True, tag=True):
    """When, by `time.monotonic`, which all processes of a host share."""

    at_s: float


class Failed(Struct, frozen=True, tag=True):
    """It cannot measure; `why` is one line."""

    why: str
