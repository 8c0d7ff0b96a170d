"""A gateway that traces: what differs from one that does not, which pays nothing for this.

Of the requests that come, some few are chosen. They are calls like all others, so that the code
that all go through stays warm for all; but their heads say that they belong to a trace, and whoever
ends such a call looks here whether it is one of ours.
"""

from random import random
from typing import Any

from broker.wire.messages import Answers, Traces
from gateway.connection import Connection
from gateway.exporter import ExporterProcess
from gateway.head import Head
from gateway.options import GatewayOptions
from gateway.request import Request
from gateway.service import Service
from gateway.tracing import Trace, Tracer


class TracingService(Service):
    """See the module."""

    def __init__(
        self, options: GatewayOptions, *, tracer: Tracer, exporter: ExporterProcess, **parts: Any
    ) -> None:
        super().__init__(options, **parts)
        self._ratio = options.sampling.ratio if options.sampling is not None else 0.0
        self._tracer = tracer
        self._exporter = exporter
        self._traces: dict[Request, Trace] = {}
        self.told = self._told
        self.trace_ratio = self._ratio

    def begin_trace_of(
        self, head: Head, connection: Connection, now: float, *, is_chosen: bool | None = None
    ) -> tuple[Trace | None, Head]:
        """See `Service`."""
        trace = self._tracer.begin(
            head.traceparent,
            head.tracestate,
            is_chosen=random() < self._ratio if is_chosen is None else is_chosen,
            protocol="http",
            client=connection.peer,
            now=now,
        )
        if trace is None:
            return None, head
        return trace, head.in_trace(trace.context.header(), trace.tracestate)

    def begin_trace(
        self, traceparent: str, tracestate: str, *, protocol: str, client: str, now: float
    ) -> Trace | None:
        """See `Service`."""
        return self._tracer.begin(
            traceparent,
            tracestate,
            is_chosen=random() < self._ratio,
            protocol=protocol,
            client=client,
            now=now,
        )

    def trace(self, call: Request, trace: Trace) -> None:
        """See `Service`."""
        self._traces[call] = trace
        self.table.trace(call, trace.context.key())

    def _told(self, message: Answers | Traces) -> None:
        if message.traces:
            self._note_submitted()
            self._tracer.told(message.traces)

    def _note_submitted(self) -> None:
        for call, seq, now in self.table.take_traced():
            trace = self._traces.get(call)
            if trace is not None:
                self._tracer.submitted(trace, seq, now)

    def ended_in_trace(
        self, call: Request, version: str, status: int, duration_s: float, code: str = ""
    ) -> None:
        """See `Service`."""
        super().ended_in_trace(call, version, status, duration_s, code)
        trace = self._traces.get(call)
        if trace is None:  # another's, of whom we show nothing
            return
        self._note_submitted()
        del self._traces[call]
        self.table.untrace(call)
        trace.pipeline = call.pipeline_label
        trace.version, trace.status, trace.code = version, status, code
        trace.request_id = call.request_id
        self._tracer.ended(trace, call.arrived_s + duration_s)

    def tick(self, now: float) -> None:
        """See `Service`."""
        super().tick(now)
        self._tracer.tick(now)
        self._exporter.tick(now)

    def close(self) -> None:
        """See `Service`."""
        super().close()
        self._tracer.close()
        self._exporter.close()
