"""The process that exports traces, as its gateway sees it: started, fed, and replaced if it ends.

To make spans, and messages of them, takes several times what the gateway does for a request, and
Python's lock all that time. So a child does it, with OpenTelemetry's SDK, which a gateway never
imports. An endpoint that hangs holds up that child; what waits for it is bounded.
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
_ROOT = Path(__file__).resolve().parent.parent
_encode = msgspec.msgpack.Encoder().encode


class MissingPackage(Exception):
    """What is not installed; the message is its name, and `cure` what to install."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        needs_grpc = name.endswith("grpc")
        self.cure = "opentelemetry-exporter-otlp-proto-grpc" if needs_grpc else "millstream[otel]"


def check_packages() -> None:
    """Whether a child could work at all. Raises MissingPackage."""
    kind = "grpc" if protocol() == "grpc" else "http"
    for name in ("opentelemetry.sdk.trace", f"opentelemetry.exporter.otlp.proto.{kind}"):
        try:
            found = find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise MissingPackage(name)


def protocol() -> str:
    """That OpenTelemetry's variables ask for."""
    found = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    return found or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"


class ExporterProcess:
    """See the module. `tick` a few times a second."""

    def __init__(self, now: float) -> None:
        self.dropped = 0
        """Traces that nobody will see."""
        self._popen: subprocess.Popen[bytes] | None = None
        self._fd = -1
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._rest = b""  # of a trace that has begun to go out
        self._wait_s = FIRST_WAIT_S
        self._started = now
        self._start_at = now
        self._told = 0
        self._start(now)

    def export(self, trace: Trace) -> None:
        """Have a trace that has ended exported, some time soon."""
        data = _encode(trace)
        size = len(data) + HEADER_BYTES
        if self._backlog_bytes + size > BACKLOG_BYTES:
            self.dropped += 1
            return
        self._backlog.append(len(data).to_bytes(HEADER_BYTES) + data)
        self._backlog_bytes += size

    def tick(self, now: float) -> None:
        """Pass on what there is, and see to it that there is somebody to take it."""
        popen = self._popen
        if popen is not None and (code := popen.poll()) is not None:
            self._let_go()
            lived_long = now - self._started > LONGEST_WAIT_S
            self._wait_s = FIRST_WAIT_S if lived_long else min(self._wait_s * 2, LONGEST_WAIT_S)
            self._start_at = now + self._wait_s
            log.warning("exporter ended", code=code, again_in_s=self._wait_s)
        if self._popen is None and now >= self._start_at:
            self._start(now)
        self._feed()
        if self.dropped > self._told:
            log.warning("traces dropped", traces=self.dropped - self._told)
            self._told = self.dropped

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

    def _start(self, now: float) -> None:
        self._started = now
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        read_fd, write_fd = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "gateway.otel"],
                env={**os.environ, **log.environment(), "PYTHONPATH": path},
                stdin=read_fd,
                process_group=0,  # a Ctrl-C is its gateway's to deal with
            )
        except OSError as error:  # no memory, no processes: that may pass
            os.close(write_fd)
            self._start_at = now + LONGEST_WAIT_S
            log.warning("exporter not started", reason=str(error))
            return
        finally:
            os.close(read_fd)
        with contextlib.suppress(OSError):  # its user may have no more of this memory
            fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(write_fd, False)
        self._fd = write_fd

    def _let_go(self) -> None:
        os.close(self._fd)
        self._popen = None
        self._backlog_bytes -= len(self._rest)
        self._rest = b""  # the next child would not know what it is the rest of

    def _feed(self) -> None:
        """As far as the pipe has room."""
        if self._popen is None:
            return
        backlog = self._backlog
        while self._rest or backlog:
            data = self._rest or backlog.popleft()
            try:
                written = os.write(self._fd, data)
            except BlockingIOError:
                written = 0
            except OSError:  # it has ended
                written = len(data)
                self.dropped += 1
            self._rest = data[written:]
            self._backlog_bytes -= written
            if self._rest:
                return
