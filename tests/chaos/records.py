"""What clients saw and what was done to gateways: the raw material of the verdict. Data alone.

All times are of the monotonic clock.
"""

from enum import StrEnum

from msgspec import Struct, field

from tests.chaos.jobs import Job


class End(StrEnum):
    """How an attempt ended."""

    ANSWERED = "answered"
    CUT = "cut"
    """The connection ended without an answer."""
    SILENT = "silent"
    """Nothing had come long after the deadline."""


class Attempt(Struct, frozen=True):
    """A job that was sent to a gateway. It is sent again when it got no answer there."""

    job: Job
    port: int
    sent_s: float
    ended_s: float
    end: End
    status: int = 0
    code: str = ""
    fault: str = ""
    """Why the answer is not the job's; "" where it is."""

    @property
    def due_s(self) -> float:
        """The deadline."""
        return self.sent_s + self.job.deadline_s


class Incident(Struct, frozen=True):
    """Something that a connection did at a moment when it should have done nothing."""

    port: int
    at_s: float
    what: str


class Pause(Struct, frozen=True):
    """The clients themselves stood still: what they measure then is not the gateways' doing."""

    from_s: float
    until_s: float


class Trouble(Struct):
    """A gateway is killed, stopped or told to end, and until when its clients may feel that."""

    port: int
    from_s: float
    until_s: float = float("inf")


class Gap(Struct):
    """No broker took what this gateway had, or a stage had no worker that is ready."""

    port: int
    from_s: float
    until_s: float = float("inf")


class Records(Struct):
    """All that clients saw."""

    attempts: list[Attempt] = field(default_factory=list)
    strays: list[Incident] = field(default_factory=list)
    """Bytes that came though no answer was owed."""
    ends: list[Incident] = field(default_factory=list)
    """Connections that ended between two requests without a word."""
    unanswered: list[Job] = field(default_factory=list)
    """Jobs that were never answered, whoever was asked."""
    sent: int = 0
    vanished: int = 0
    """Requests whose clients did not wait for the answer."""
    pauses: list[Pause] = field(default_factory=list)
