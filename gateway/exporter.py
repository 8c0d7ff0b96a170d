"""The process that exports traces, as its gateway sees it: started, fed, and replaced if it ends.

To make spans, and messages of them, takes several times what the gateway does for a request, and
Python's lock all that time. So a child does it, with OpenTelemetry's SDK, which a gateway never
imports. An endpoint that hangs holds up that child; what waits for it is bounded. The child tells,
through a pipe of its own, what has become of the traces that it was given.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
from collections import deque
from importlib.util import find_spec
from pathlib import Path

import msgspec

from broker.wire import log
from gateway.tracing import Trace

CLOSE_S = 1.5
"""How long the end of a gateway may wait for the last traces to leave."""
BACKLOG_BYTES = 4 << 20
"""Kept for a child that is slow: some ten thousand traces."""
PIPE_BYTES = 1 << 20
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""From the end of a child to the start of the next; doubled each time, unless it lived for long."""
HEADER_BYTES = 4
TRACES_AT_ONCE = 64
"""In one message, at most: they are packed together, and each message wakes the child."""
FATE_BYTES = 8
FATES_BYTES = 1 << 16
"""As many as a pipe holds."""
TELL_AGAIN_S = 60.0
"""While traces are being lost the log says how many, so often."""
_ROOT = Path(__file__).resolve().parent.parent
_encode = msgspec.msgpack.Encoder().encode


KINDS = {"http/protobuf": "http", "grpc": "grpc"}
"""Protocols, and how the SDK's package of each ends."""


class CannotExport(Exception):
    """Why no child could work; in one line for the user."""


def check_packages() -> None:
    """Raises CannotExport."""
    asked = protocol()
    if asked not in KINDS:
        known = " or ".join(KINDS)
        raise CannotExport(f"OTEL_EXPORTER_OTLP_PROTOCOL: must be {known}, not {asked!r}")
    kind = KINDS[asked]
    for name in ("opentelemetry.sdk.trace", f"opentelemetry.exporter.otlp.proto.{kind}"):
        try:
            found = find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            needs_grpc = name.endswith("grpc")
            cure = "opentelemetry-exporter-otlp-proto-grpc" if needs_grpc else "millstream[otel]"
            raise CannotExport(
                f"tracing needs what is not installed ({name}): pip install '{cure}'"
            )


def protocol() -> str:
    """That OpenTelemetry's variables ask for."""
    found = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    return found or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"


def pack_fate(traces: int, lost: int) -> bytes:
    """What a child tells of so many traces, of which it has lost some."""
    return traces.to_bytes(FATE_BYTES // 2) + lost.to_bytes(FATE_BYTES // 2)


def unpack_fates(data: bytes) -> tuple[int, int]:
    """All that a child has told, added up."""
    half = FATE_BYTES // 2
    words = [int.from_bytes(data[at : at + half]) for at in range(0, len(data), half)]
    return sum(words[::2]), sum(words[1::2])


class ExporterProcess:
    """See the module. `tick` a few times a second."""

    def __init__(self, now: float) -> None:
        self.dropped = 0
        """Traces that nobody will see."""
        self._popen: subprocess.Popen[bytes] | None = None
        self._fd = -1
        self._fate_fd = -1
        self._held = 0  # traces that the child was given, and has not told of
        self._unpacked: list[Trace] = []
        self._backlog: deque[tuple[int, bytes]] = deque()  # messages, and of how many traces
        self._backlog_bytes = 0
        self._rest = b""  # of a message that has begun to go out
        self._wait_s = FIRST_WAIT_S
        self._started = now
        self._start_at = now
        self._told = 0  # of `dropped`, in the log
        self._tell_at = now
        self._start(now)

    def export(self, trace: Trace) -> None:
        """Have a trace that has ended exported, some time soon."""
        self._unpacked.append(trace)
        if len(self._unpacked) == TRACES_AT_ONCE:
            self._pack()

    def tick(self, now: float) -> None:
        """Pass on what there is, and see to it that there is somebody to take it."""
        popen = self._popen
        self._hear()
        if popen is not None and (code := popen.poll()) is not None:
            self._let_go()
            lived_long = now - self._started > LONGEST_WAIT_S
            self._wait_s = FIRST_WAIT_S if lived_long else min(self._wait_s * 2, LONGEST_WAIT_S)
            self._start_at = now + self._wait_s
            log.warning("exporter ended", code=code, again_in_s=self._wait_s)
        if self._popen is None and now >= self._start_at:
            self._start(now)
        self._feed()
        if self.dropped > self._told and now >= self._tell_at:
            log.warning("traces dropped", traces=self.dropped - self._told)
            self._told = self.dropped
            self._tell_at = now + TELL_AGAIN_S

    def close(self) -> None:
        """Give the child some time for what is left, and end it."""
        popen = self._popen
        if popen is None:
            return
        with contextlib.suppress(OSError):
            os.set_blocking(self._fd, False)
        self._feed()
        os.close(self._fd)
        self._popen = None
        try:
            popen.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
        os.close(self._fate_fd)

    def _start(self, now: float) -> None:
        self._started = now
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        read_fd, write_fd = os.pipe()
        hear_fd, tell_fd = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "gateway.otel", str(tell_fd)],
                env={**os.environ, **log.environment(), "PYTHONPATH": path},
                stdin=read_fd,
                pass_fds=(tell_fd,),
                process_group=0,  # a Ctrl-C is its gateway's to deal with
            )
        except OSError as error:  # no memory, no processes: that may pass
            os.close(write_fd)
            os.close(hear_fd)
            self._start_at = now + LONGEST_WAIT_S
            log.warning("exporter not started", reason=str(error))
            return
        finally:
            os.close(read_fd)
            os.close(tell_fd)
        with contextlib.suppress(OSError):  # its user may have no more of this memory
            fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(write_fd, False)
        os.set_blocking(hear_fd, False)
        self._fd, self._fate_fd = write_fd, hear_fd

    def _let_go(self) -> None:
        self._hear()
        self.dropped += self._held
        self._held = 0
        os.close(self._fd)
        os.close(self._fate_fd)
        self._popen = None
        self._backlog_bytes -= len(self._rest)
        self._rest = b""  # the next child would not know what it is the rest of

    def _hear(self) -> None:
        """What the child has told of late."""
        if self._popen is None:
            return
        with contextlib.suppress(BlockingIOError):
            dealt_with, lost = unpack_fates(os.read(self._fate_fd, FATES_BYTES))
            self._held -= dealt_with
            self.dropped += lost

    def _pack(self) -> None:
        traces, self._unpacked = self._unpacked, []
        data = _encode(traces)
        size = len(data) + HEADER_BYTES
        if self._backlog_bytes + size > BACKLOG_BYTES:
            self.dropped += len(traces)
            return
        self._backlog.append((len(traces), len(data).to_bytes(HEADER_BYTES) + data))
        self._backlog_bytes += size

    def _feed(self) -> None:
        """As far as the pipe has room."""
        if self._unpacked:
            self._pack()
        if self._popen is None:
            return
        backlog = self._backlog
        while self._rest or backlog:
            if not self._rest:
                count, self._rest = backlog.popleft()
                self._held += count
            try:
                written = os.write(self._fd, self._rest)
            except OSError:  # there is no room, or the child has ended, which `tick` will see
                return
            self._rest = self._rest[written:]
            self._backlog_bytes -= written
