"""What passes between a supervisor and one of its worker processes: its task, and how it fares.

The task is one command line argument; the worker answers with lines of JSON on an inherited pipe.
The end of the pipe means that the worker has nothing more to do but to exit.
"""

import contextlib
import os
from typing import TypeAlias

import msgspec
from msgspec import Struct

from workers.options import WorkerOptions

_MAX_TRACE_CHARS = 16_000
"""A pipe holds 64 KiB, and nobody reads more of a traceback."""


class Task(Struct, frozen=True, kw_only=True):
    """All that one worker process is told."""

    options: WorkerOptions
    index: int
    device: str
    identity: str
    """The routing id of this life, in hex."""
    supervisor: str
    """That of the supervisor, in hex."""
    supervisor_pid: int
    status_fd: int
    mark_fd: int
    """Where it notes which batch it has begun."""
    log_fd: int = 2
    """Where its log goes. (What it prints, its supervisor reads.)"""


class Imported(Struct, frozen=True, tag="imported"):
    """The script is imported; `stage` is what this worker will serve."""

    stage: str


class Warm(Struct, frozen=True, tag="warm"):
    """Setup and warm-up are done."""


class Welcomed(Struct, frozen=True, tag="welcomed"):
    """The broker has taken this worker in as ready."""


class RefusedByBroker(Struct, frozen=True, tag="refused"):
    """The broker will not have this worker."""

    reason: str


class Failed(Struct, frozen=True, tag="failed"):
    """The script could not be loaded (`while_loading`), or setup or warm-up raised."""

    message: str
    trace: str
    while_loading: bool


class Worn(Struct, frozen=True, tag="worn"):
    """This worker has served its time: it goes on, and is to be recycled.

    `drains_first`: there may be no room for its successor beside it.
    """

    reason: str
    drains_first: bool = False


class Closing(Struct, frozen=True, tag="closing"):
    """It serves no longer: teardown is all that is left to it."""


Status: TypeAlias = Imported | Warm | Welcomed | RefusedByBroker | Failed | Worn | Closing

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Status)


def encode_task(task: Task) -> str:
    """The task as a command line argument."""
    return _encoder.encode(task).decode()


def decode_task(text: str) -> Task:
    """The reverse of `encode_task`; raises msgspec.DecodeError."""
    return msgspec.json.decode(text, type=Task)


class StatusWriter:
    """The worker's end of the pipe. A supervisor that is gone is no error: we die with it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        os.set_inheritable(fd, False)  # what a plug-in starts must not keep the pipe open

    def say(self, status: Status) -> None:
        """Tells the supervisor."""
        if isinstance(status, Failed) and len(status.trace) > _MAX_TRACE_CHARS:
            cut = "[…]\n" + status.trace[-_MAX_TRACE_CHARS:]
            status = msgspec.structs.replace(status, trace=cut)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._fd, _encoder.encode(status) + b"\n")

    def close(self) -> None:
        """Says that this process is about to exit."""
        os.close(self._fd)


class StatusReader:
    """The supervisor's end of the pipe, which never blocks."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._rest = b""

    def read(self) -> tuple[list[Status], bool]:
        """What has come, and whether that was all for ever."""
        ended = False
        try:
            data = os.read(self.fd, 1 << 16)
            ended = not data
        except BlockingIOError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [_decoder.decode(line) for line in lines], ended

    def close(self) -> None:
        """Lets go of the pipe."""
        os.close(self.fd)
