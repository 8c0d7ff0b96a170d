"""Traces to OpenTelemetry: the program of the process that `exporter.py` starts, and all that
imports it.

Traces come on standard input, and its end is the end of the gateway. The SDK's batching takes them
whole; its thread makes spans of them. What waits for an endpoint that hangs or is down is bounded
(OTEL_BSP_MAX_QUEUE_SIZE), and the oldest is dropped beyond.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import cast

import msgspec
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from broker.wire import log
from gateway.exporter import HEADER_BYTES, protocol
from gateway.spans import Span, spans_of
from gateway.tracing import Trace

CLOSE_S = 1.0
"""How long the end may wait for an endpoint."""
NICENESS = 5
"""Where there is too little processor for all, requests go first."""
SPANS_AT_ONCE = 512
"""In one request to the endpoint: the SDK's own measure, where it counts spans."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_OK = Status(StatusCode.UNSET)


class Exporter:
    """Hands traces to the SDK."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._processor = BatchSpanProcessor(_Traces(exporter))

    def export(self, trace: Trace) -> None:
        """Have a trace that has ended exported, some time soon."""
        # What the processor needs of a span is that it is sampled; `_Traces` gets it back.
        self._processor.on_end(cast(ReadableSpan, _Carrier(trace)))

    def close(self) -> None:
        """Export what is left, within bounds."""
        # It waits for 30 s by itself, and its thread is no reason for a process to live on.
        thread = threading.Thread(target=self._processor.shutdown, daemon=True)
        thread.start()
        thread.join(CLOSE_S)


def make_exporter() -> Exporter:
    """To the endpoint that the environment names (OTEL_EXPORTER_OTLP_…)."""
    otlp: SpanExporter
    if protocol() == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter as GrpcExporter,
        )

        otlp = GrpcExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter as HttpExporter,
        )

        otlp = HttpExporter()
    return Exporter(otlp)


class _Carrier:
    """A trace on its way through the processor."""

    __slots__ = ("trace",)
    context = SpanContext(1, 1, False, _SAMPLED)

    def __init__(self, trace: Trace) -> None:
        self.trace = trace


class _QuickResource(Resource):
    """One that is the same only as itself: the exporter asks each span's, and would compare what
    stands in it.
    """

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource.attributes, resource.schema_url)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class _Traces(SpanExporter):
    """Makes spans of traces, in the processor's thread."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._resource = _QuickResource(Resource.create(_named()))
        self._scope = InstrumentationScope("millstream", version("millstream"))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See the base class; these are no spans yet."""
        traces = [carrier.trace for carrier in cast(Sequence[_Carrier], spans)]
        made = [span for trace in traces for span in self._spans(trace)]
        result = SpanExportResult.SUCCESS
        for start in range(0, len(made), SPANS_AT_ONCE):
            if self._exporter.export(made[start : start + SPANS_AT_ONCE]) is not result:
                return SpanExportResult.FAILURE  # nor would the rest get through
        return result

    def shutdown(self) -> None:
        """See the base class."""
        self._exporter.shutdown()

    def _spans(self, trace: Trace) -> Iterator[ReadableSpan]:
        state = TraceState.from_header([trace.tracestate]) if trace.tracestate else None
        trace_id = int(trace.context.trace_id, 16)
        past_s = time.time() - time.monotonic()
        for span in spans_of(trace):
            yield self._span(span, trace_id, state, past_s)

    def _span(
        self, span: Span, trace_id: int, state: TraceState | None, past_s: float
    ) -> ReadableSpan:
        parent = None
        if span.parent_id:
            parent = SpanContext(
                trace_id, int(span.parent_id, 16), span.is_request, _SAMPLED, state
            )
        status = _OK if span.error is None else Status(StatusCode.ERROR, span.error)
        return ReadableSpan(
            name=span.name,
            context=SpanContext(trace_id, int(span.span_id, 16), False, _SAMPLED, state),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            links=[
                Link(
                    SpanContext(int.from_bytes(key[:16]), int.from_bytes(key[16:]), False, _SAMPLED)
                )
                for key in span.links
            ],
            kind=SpanKind.SERVER if span.is_request else SpanKind.INTERNAL,
            status=status,
            start_time=int((span.start_s + past_s) * 1e9),
            end_time=int((span.end_s + past_s) * 1e9),
            instrumentation_scope=self._scope,
        )


def _named() -> dict[str, str]:
    """What the SDK leaves to us to say; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go first."""
    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if "OTEL_SERVICE_NAME" in os.environ or "service.name=" in given:
        return {}
    return {"service.name": "millstream"}


def main() -> int:
    """Export what comes, until the gateway is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its gateway ends it
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    log.setup_from(os.environ)
    log.configure(role="exporter")
    log.switch_by_signal()
    exporter = make_exporter()
    decode = msgspec.msgpack.Decoder(Trace).decode
    read = sys.stdin.buffer.read
    while len(header := read(HEADER_BYTES)) == HEADER_BYTES:
        exporter.export(decode(read(int.from_bytes(header))))
    exporter.close()
    log.close()
    os._exit(0)  # a thread that hangs in an endpoint is not waited for


if __name__ == "__main__":
    sys.exit(main())
