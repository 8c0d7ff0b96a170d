"""Spans as messages of OTLP, of the classes that OpenTelemetry makes from its protocol's files.

The SDK makes the same of span objects of its own, and takes four times as long for it: 97 µs for
the six spans of a request in one stage, and 17 µs for the objects, in place of 23 µs for both.
"""

from collections.abc import Sequence

from msgspec import Struct
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceState

from gateway.spans import Span, spans_of
from gateway.tracing import Trace

TRACE_ID_BYTES = 16
_SERVER = trace_pb2.Span.SPAN_KIND_SERVER
_INTERNAL = trace_pb2.Span.SPAN_KIND_INTERNAL
_ERROR = trace_pb2.Status.STATUS_CODE_ERROR
_LOCAL = int(trace_pb2.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
_REMOTE = _LOCAL | int(trace_pb2.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)


class TracedSpan(Struct):
    """A span, and what it has in common with its trace. `past_s` leads from its clock to the
    calendar's.
    """

    span: Span
    trace_id: bytes
    tracestate: str
    past_s: float


def traced_spans(trace: Trace, past_s: float) -> list[TracedSpan]:
    """All spans of a trace that has ended."""
    trace_id = bytes.fromhex(trace.context.trace_id)
    state = TraceState.from_header([trace.tracestate]).to_header() if trace.tracestate else ""
    return [TracedSpan(span, trace_id, state, past_s) for span in spans_of(trace)]


class Encoder:
    """Stands in the place of the SDK's `encode_spans`."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        span = ReadableSpan(
            "",
            context=SpanContext(1, 1, is_remote=False),
            resource=resource,
            instrumentation_scope=scope,
        )
        request = encode_spans([span])
        del request.resource_spans[0].scope_spans[0].spans[:]
        self._empty = request

    def __call__(self, spans: Sequence[TracedSpan]) -> ExportTraceServiceRequest:
        """All of them in one request."""
        request = ExportTraceServiceRequest()
        request.CopyFrom(self._empty)
        add = request.resource_spans[0].scope_spans[0].spans.add
        for each in spans:
            span, past_s = each.span, each.past_s
            message = add(
                trace_id=each.trace_id,
                span_id=bytes.fromhex(span.span_id),
                parent_span_id=bytes.fromhex(span.parent_id),
                trace_state=each.tracestate,
                name=span.name,
                kind=_SERVER if span.is_request else _INTERNAL,
                start_time_unix_nano=int((span.start_s + past_s) * 1e9),
                end_time_unix_nano=int((span.end_s + past_s) * 1e9),
                flags=_REMOTE if span.is_request and span.parent_id else _LOCAL,
            )
            _add_details(message, span)
        return request


def _add_details(message: trace_pb2.Span, span: Span) -> None:
    add = message.attributes.add
    for key, value in span.attributes.items():
        # Setting a field costs a third of what a message that is copied does.
        field = add(key=key).value
        if type(value) is str:
            field.string_value = value
        else:
            field.int_value = int(value)
    for link in span.links:
        message.links.add(
            trace_id=link[:TRACE_ID_BYTES], span_id=link[TRACE_ID_BYTES:], flags=_LOCAL
        )
    if span.error is not None:
        message.status.code = _ERROR
        message.status.message = span.error
