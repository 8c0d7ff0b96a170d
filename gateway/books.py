"""What is kept of requests that are over: counts, the log, the slowest of late, and the bodies that
workers died of.
"""

import time
from collections.abc import Sequence
from typing import cast

from broker.wire.frames import Buffer, refs_of
from broker.wire.messages import Payload
from broker.wire.trace import trace_id_of
from gateway.catalog import STABLE
from gateway.journal import Ended, Journal
from gateway.killers import Killers
from gateway.memory import UploadMemory
from gateway.metrics import UNKNOWN, Metrics
from gateway.request import Request
from gateway.ui.slowest import Slowest, SlowRequest

LONGEST_ID = 64
"""Of a request's id, where it is shown to people."""


class Books:
    """See the module."""

    def __init__(self, metrics: Metrics, journal: Journal, memory: UploadMemory) -> None:
        self.killers = Killers()
        self._metrics = metrics
        self._journal = journal
        self._memory = memory
        self._slowest = Slowest(time.monotonic())
        self._notable_s = 0.0
        self.in_trace = self.exemplify
        """Called with each that belongs to a trace, ours or not."""

    # -------------------------------------------------------------- all that are over

    def succeeded(  # noqa: PLR0917  keywords cost
        self,
        call: Request,
        version: str,
        payload: Payload,
        timing: str,
        size_bytes: int,
        spans: Sequence[float],
    ) -> None:
        """A call was answered with a result, and its client need not wait for our books."""
        self.passed(call, payload)
        duration_s = time.monotonic() - call.arrived_s
        view = call.view
        self._metrics.count(UNKNOWN if view is None else view.name, version, 200, duration_s)
        if call.trace is not None or call.traceparent:
            self.in_trace(call, version, 200, duration_s, "")
        if duration_s >= self._notable_s:
            self._note(call, version, 200, duration_s, "", spans)
            if duration_s >= self._journal.results_from_s:
                self._log(call, version, 200, duration_s, timing, size_bytes)

    def ended(
        self,
        call: Request,
        version: str,
        status: int,
        *,
        code: str = "",
        detail: str = "",
        size_bytes: int = 0,
    ) -> None:
        """A call is over: count it, and log it where it is worth a line."""
        duration_s = time.monotonic() - call.arrived_s
        label = call.pipeline_label
        self._metrics.count(label, version, status, duration_s)
        if code:
            self._metrics.count_error(label, code)
        if call.trace is not None or call.traceparent:
            self.in_trace(call, version, status, duration_s, code)
        if self._journal.wants(pipeline=label, status=status, code=code, duration_s=duration_s):
            timing = call.view.server_timing(call.spans) if call.view and call.spans else ""
            self._log(call, version, status, duration_s, timing, size_bytes, code, detail)
        if duration_s >= self._notable_s:
            self._note(call, version, status, duration_s, code, call.spans)

    def exemplify(
        self, call: Request, version: str, status: int, duration_s: float, code: str
    ) -> None:
        """An example for the metrics: a call that belongs to another's trace."""
        self._metrics.exemplify(call.pipeline_label, duration_s, call.traceparent)

    def slowest(self) -> list[SlowRequest]:
        """Of late, the slowest first."""
        return list(self._slowest.shown())

    def tick(self, now: float) -> None:
        """A few times a second."""
        self._journal.tick(now)
        self._slowest.tick(now)
        self._notable_s = min(self._slowest.least_s, self._journal.results_from_s)

    def _note(  # noqa: PLR0917
        self,
        call: Request,
        version: str,
        status: int,
        duration_s: float,
        code: str,
        spans: Sequence[float],
    ) -> None:
        """It may be one of the slowest of late."""
        slowest = self._slowest
        if duration_s >= slowest.least_s:
            stages = [] if call.view is None else [stage.name for stage in call.view.stages]
            slowest.add(
                SlowRequest(
                    duration_s,
                    time.time(),
                    call.request_id[:LONGEST_ID],
                    call.pipeline_label,
                    version,
                    status,
                    code,
                    stages,
                    list(spans),
                )
            )
        self._notable_s = min(slowest.least_s, self._journal.results_from_s)

    def _log(  # noqa: PLR0917
        self,
        call: Request,
        version: str,
        status: int,
        duration_s: float,
        timing: str,
        bytes_out: int,
        code: str = "",
        detail: str = "",
    ) -> None:
        traceparent = call.traceparent
        line = Ended(
            call.pipeline_label,
            version,
            status,
            call.request_id,
            round(duration_s * 1000.0, 3),
            timing,
            call.bytes_in,
            bytes_out,
            call.peer,
            code,
            detail,
            trace_id_of(traceparent) if traceparent else "",
        )
        self._journal.ended(line)

    # -------------------------------------------------------------- bodies that kill

    def is_killer(self, pipeline: str, payload: Payload, now: float) -> bool:
        """Whether a request like this ended in `worker_crashed` a short while ago."""
        return self.killers.knows(pipeline, self._parts(payload), now)

    def remember_killer(self, call: Request, version: str, payload: Payload) -> None:
        """This request ended in `worker_crashed`. A version that is only tried out may die of what
        is harmless to the one that will answer the same body next time.
        """
        stable = call.view.labels.get(STABLE) if call.view is not None else None
        if version == stable or not stable:
            self.killers.remember(call.name, self._parts(payload), time.monotonic())

    def passed(self, call: Request, payload: Payload) -> None:
        """This request was answered with a result."""
        killers = self.killers
        if type(payload) is bytes:
            killers.passed(call.name, payload)
        if call.arrived_s <= killers.blamed_s:
            killers.clear(call.name, self._parts(payload), time.monotonic())

    def _parts(self, payload: Payload) -> list[Buffer]:
        """The body in a payload, wherever it lies."""
        if isinstance(payload, bytes):
            return [payload]
        head: list[Buffer] = [payload.body] if payload.body else []
        if payload.refs:
            return head + [self._memory.fetch(ref) for ref in refs_of(payload)]
        return head + cast(list[Buffer], payload.buffers)
