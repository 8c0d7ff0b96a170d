"""A gateway that traces: what differs from one that does not, which pays nothing for this.

Of the requests that come, some few are chosen. They are calls like all others, so that the code
that all go through stays warm for all, but for the trace that they have.

What few requests need is never warm: the same work takes three times as long as where it is done
for many in a row. So a request is only noted on its way, and all that have ended are seen to
together.
"""

from math import log, log1p
from random import random
from typing import Any

from broker.wire.messages import Answers, RequestTrace, Traces
from gateway.exporter import ExporterProcess
from gateway.options import GatewayOptions
from gateway.request import Request
from gateway.service import Service
from gateway.tracing import Trace, Tracer

NEVER = 1 << 62
"""Requests: more than come."""
MOST_NOTED = 64
"""Traces that have ended before they are seen to, or fewer after a tick."""


def gap(ratio: float) -> int:
    """How many requests are not chosen before one is, if each is by this chance."""
    if ratio >= 1.0:
        return 0
    if ratio <= 0.0:
        return NEVER
    return min(int(log(1.0 - random()) / log1p(-ratio)), NEVER)


class TracingService(Service):
    """See the module."""

    def __init__(
        self, options: GatewayOptions, *, tracer: Tracer, exporter: ExporterProcess, **parts: Any
    ) -> None:
        super().__init__(options, **parts)
        self._ratio = options.sampling.ratio if options.sampling is not None else 0.0
        self.until_traced = gap(self._ratio)
        self._tracer = tracer
        self._exporter = exporter
        self._told_of: list[RequestTrace] = []
        self._ended: list[Trace] = []
        self.told = self._told
        self.books.in_trace = self._ended_in_trace

    def begin_trace(  # noqa: PLR0917  # keywords cost
        self,
        traceparent: str,
        tracestate: str,
        protocol: str,
        client: str,
        now: float,
        is_chosen: bool | None = None,
    ) -> Trace | None:
        """See `Service`."""
        if is_chosen:
            self.until_traced = gap(self._ratio)
        return self._tracer.begin(
            traceparent,
            tracestate,
            is_chosen=random() < self._ratio if is_chosen is None else is_chosen,
            protocol=protocol,
            client=client,
            now=now,
        )

    def _told(self, message: Answers | Traces) -> None:
        if message.traces:
            self._told_of += message.traces

    def _ended_in_trace(
        self, call: Request, version: str, status: int, duration_s: float, code: str
    ) -> None:
        """See `Books.in_trace`."""
        trace = call.trace
        if trace is None:  # another's, of whom we show nothing
            self.books.exemplify(call, version, status, duration_s, code)
        elif not trace.ended_s:
            trace.pipeline = call.pipeline_label
            trace.version, trace.status, trace.code = version, status, code
            trace.request_id = call.request_id
            trace.ended_s = call.arrived_s + duration_s
            self._ended.append(trace)
            if len(self._ended) >= MOST_NOTED:
                self._see_to_ended()

    def _see_to_ended(self) -> None:
        tracer, metrics = self._tracer, self._metrics
        tracer.submitted(self.table.take_traced())
        told, self._told_of = self._told_of, []
        tracer.told(told)
        ended, self._ended = self._ended, []
        for trace in ended:
            duration_s = trace.ended_s - trace.arrived_s
            metrics.exemplify(trace.pipeline, duration_s, trace.context.header())
            tracer.ended(trace)

    def tick(self, now: float) -> None:
        """See `Service`."""
        super().tick(now)
        self._see_to_ended()
        self._tracer.tick(now)
        self._exporter.tick(now)

    def close(self) -> None:
        """See `Service`."""
        super().close()
        self._see_to_ended()
        self._tracer.close()
        self._exporter.close()
