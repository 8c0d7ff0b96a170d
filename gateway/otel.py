"""Traces to OpenTelemetry: the program of the process that `exporter.py` starts. It and `otlp.py`
are all that imports OpenTelemetry.

Traces come on standard input, and its end is the end of the gateway. The SDK's batching takes them
whole; its thread makes spans of them. What waits for an endpoint that hangs or is down is bounded
(OTEL_BSP_MAX_QUEUE_SIZE); beyond, what comes is dropped. What became of all is told to the gateway.
"""

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import cast

import msgspec
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags

from broker.wire import log
from gateway.exporter import HEADER_BYTES, KINDS, pack_fate, protocol
from gateway.heap import keep_freed
from gateway.otlp import Encoder, SpansOfTrace, spans_of_trace
from gateway.tracing import Trace

CLOSE_S = 1.0
"""How long the end may wait for an endpoint."""
NICENESS = 10
"""Where there is too little processor for all, requests go first: a tenth of a core is left for
this, which is a few thousand traces a second.
"""
MOST_WAITING, MOST_AT_ONCE = 2048, 512
"""Traces, unless OTEL_BSP_… says otherwise: the SDK's own measures."""
SPANS_AT_ONCE = 2048
"""In one request to the endpoint, or one trace more: less than half a MiB. A request costs as much
as a hundred spans, and gRPC takes 4 MiB."""
SAY_AGAIN_S = 60.0
"""An endpoint that is down is down each time: the SDK's lines of the same kind are logged once."""
SDK = "opentelemetry"
"""Its loggers are below this one."""
ENCODE = "encode_spans"
"""The SDK's exporters, over HTTP and gRPC, find by this name what makes messages of spans."""

Report = Callable[[int, int], None]
"""Of so many traces that are dealt with, so many are lost."""


class Exporter:
    """Hands traces to the SDK."""

    def __init__(self, exporter: SpanExporter, report: Report) -> None:
        self._report = report
        self._traces = _Traces(exporter, report)
        self._most = _number("OTEL_BSP_MAX_QUEUE_SIZE", MOST_WAITING)
        most_at_once = _number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", MOST_AT_ONCE)
        self._processor = BatchSpanProcessor(
            self._traces, max_queue_size=max(self._most, most_at_once)
        )

    def export(self, trace: Trace) -> None:
        """Have a trace that has ended exported, some time soon."""
        if self._traces.came - self._traces.taken >= self._most:
            self._report(1, 1)
            return
        self._traces.came += 1
        # What the processor needs of a span is that it is sampled; `_Traces` gets it back.
        self._processor.on_end(cast(ReadableSpan, _Carrier(trace)))

    def close(self) -> None:
        """Export what is left, within bounds."""
        # It waits for 30 s by itself, and its thread is no reason for a process to live on.
        thread = threading.Thread(target=self._processor.shutdown, daemon=True)
        thread.start()
        if not self._traces.is_failing:
            thread.join(CLOSE_S)


def make_exporter(report: Report) -> Exporter:
    """To the endpoint that the environment names (OTEL_EXPORTER_OTLP_…).

    Raises RuntimeError where the SDK is of a kind that is not known.
    """
    module = import_module(f"opentelemetry.exporter.otlp.proto.{KINDS[protocol()]}.trace_exporter")
    if not hasattr(module, ENCODE):
        raise RuntimeError(f"{module.__name__} has no {ENCODE}: this release is not known")
    scope = InstrumentationScope("millstream", version("millstream"))
    setattr(module, ENCODE, Encoder(Resource.create(_named()), scope))
    exporter: SpanExporter = module.OTLPSpanExporter()
    return Exporter(exporter, report)


class _Carrier:
    """A trace on its way through the processor."""

    __slots__ = ("trace",)
    context = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    def __init__(self, trace: Trace) -> None:
        self.trace = trace


class _Traces(SpanExporter):
    """Makes spans of traces, in the processor's thread. `came` is the other thread's."""

    def __init__(self, exporter: SpanExporter, report: Report) -> None:
        self._exporter = exporter
        self._report = report
        self.came = self.taken = 0
        self.is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See the base class; these are no spans yet."""
        traces = [carrier.trace for carrier in cast(Sequence[_Carrier], spans)]
        self.taken += len(traces)
        sent = 0
        for made in _portions(traces):
            # What it makes of these is our encoder's to say.
            result = self._exporter.export(cast(Sequence[ReadableSpan], made))
            self.is_failing = result is not SpanExportResult.SUCCESS
            if self.is_failing:  # nor would the rest get through
                break
            sent += len(made)
        self._report(len(traces), len(traces) - sent)
        return SpanExportResult.FAILURE if self.is_failing else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """See the base class."""
        self._exporter.shutdown()


def _portions(traces: Sequence[Trace]) -> Iterator[list[SpansOfTrace]]:
    """What is sent together."""
    past_s = time.time() - time.monotonic()
    made: list[SpansOfTrace] = []
    count = 0
    for trace in traces:
        spans = spans_of_trace(trace, past_s)
        made.append(spans)
        count += len(spans.spans)
        if count >= SPANS_AT_ONCE:
            yield made
            made, count = [], 0
    if made:
        yield made


class _NowAndThen(logging.Filter):
    """Lets a line of the SDK through unless one of its kind has just been."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See the base class."""
        if not record.name.startswith(SDK):
            return True
        kind = (record.name, str(record.msg))
        is_new = record.created - self._said.get(kind, 0.0) >= SAY_AGAIN_S
        if is_new:
            self._said[kind] = record.created
        return is_new


def _number(name: str, default: int) -> int:
    try:
        return max(int(os.environ.get(name, "")), 1)
    except ValueError:
        return default


def _named() -> dict[str, str]:
    """What the SDK leaves to us to say; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go first."""
    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if "OTEL_SERVICE_NAME" in os.environ or "service.name=" in given:
        return {}
    return {"service.name": "millstream"}


def _report_to(fd: int) -> Report:
    """To our gateway, which may have gone."""

    def report(traces: int, lost: int) -> None:
        with contextlib.suppress(OSError):
            os.write(fd, pack_fate(traces, lost))

    return report


def main() -> int:
    """Export what comes, until the gateway is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its gateway ends it
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    keep_freed()  # messages come and go, too
    log.setup_from(os.environ)
    log.configure(role="exporter")
    log.switch_by_signal()
    for handler in logging.getLogger(SDK).handlers:
        handler.addFilter(_NowAndThen())
    exporter = make_exporter(_report_to(int(sys.argv[1])))
    gc.freeze()  # what is imported stays
    decode = msgspec.msgpack.Decoder(list[Trace]).decode
    read = sys.stdin.buffer.read
    while len(header := read(HEADER_BYTES)) == HEADER_BYTES:
        for trace in decode(read(int.from_bytes(header))):
            exporter.export(trace)
    exporter.close()
    log.close()
    os._exit(0)  # a thread that hangs in an endpoint is not waited for


if __name__ == "__main__":
    sys.exit(main())
