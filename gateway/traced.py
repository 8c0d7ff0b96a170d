"""A gateway that traces: what differs from one that does not, which pays nothing for this.

Of the requests that come, some few are made of another kind, which says to workers and broker that
it is traced, and to the tracer when it has ended.
"""

import time
from functools import partial
from random import random
from typing import TYPE_CHECKING, Any

from broker.wire import frames
from broker.wire.messages import Answer, Answers, Payload, Streamed, SubmitItem, Traces
from gateway.call import Call
from gateway.connection import Connection
from gateway.exporter import ExporterProcess
from gateway.head import Head
from gateway.mosec.call import MosecCall
from gateway.options import GatewayOptions
from gateway.request import Request
from gateway.service import Service
from gateway.tracing import Trace, Tracer


class Traced:
    """What a traced request does otherwise: a base that stands before its face."""

    __slots__ = ()

    if TYPE_CHECKING:
        trace: Trace
        seq: int
        _service: Service

    @property
    def traceparent(self) -> str:
        """See `Request`: the trace may have begun here."""
        return self.trace.context.header()

    def _with_trace(self, packed: bytes) -> bytes:
        """What plug-ins call is to be below this request's span."""
        meta = frames.decode_meta(packed)
        meta.traceparent = self.trace.context.header()
        meta.tracestate = self.trace.tracestate
        return frames.encode_meta(meta)

    def _note_submitted(self) -> None:
        """It has been submitted, or answered; it is sent when this turn of the loop ends."""
        trace, service = self.trace, self._service
        service.table.untrace(trace.seq)  # it may have had another number before
        if self.seq:
            service.table.trace(self.seq, trace.context.key())
            service.submitted(trace, self.seq)


class TracedCall(Traced, Call, kw_only=True):
    """One that came over HTTP."""

    trace: Trace

    def _pack_meta(self) -> bytes:
        return self._with_trace(super()._pack_meta())

    def _submit(self, payload: Payload) -> None:
        super()._submit(payload)
        self._note_submitted()

    def _settle_result(  # noqa: PLR0917
        self,
        answer: Answer,
        item: SubmitItem,
        body: frames.Buffer | list[frames.Buffer],
        size_bytes: int,
        content_type: str,
        extra: bytes,
    ) -> None:
        super()._settle_result(answer, item, body, size_bytes, content_type, extra)
        if self._done:  # else it is compressed first
            self._service.trace_ended(self, self.trace, answer.version, 200)

    def _end_stream(self, answer: Answer, outcome: Streamed, item: SubmitItem) -> None:
        super()._end_stream(answer, outcome, item)
        self._service.trace_ended(self, self.trace, answer.version, 200)


class TracedMosecCall(TracedCall, MosecCall):
    """One that came over HTTP, at a route of MOSEC's kind."""


class TracingService(Service):
    """See the module."""

    def __init__(
        self, options: GatewayOptions, *, tracer: Tracer, exporter: ExporterProcess, **parts: Any
    ) -> None:
        super().__init__(options, **parts)
        self._ratio = options.sampling.ratio if options.sampling is not None else 0.0
        self._tracer = tracer
        self._exporter = exporter
        self.told = self._told
        self.make_call = self._make_call
        self.make_mosec_call = partial(self._make_call, plain=MosecCall, traced=TracedMosecCall)

    def _make_call(
        self, *given: Any, plain: type[Call] = Call, traced: type[TracedCall] = TracedCall
    ) -> Call:
        """The arguments are those of `Call`."""
        head: Head = given[-1]
        is_chosen = random() < self._ratio
        if not (is_chosen or head.traceparent):
            return plain(*given)
        connection: Connection = given[-2]
        trace = self._tracer.begin(
            head.traceparent,
            head.tracestate,
            is_chosen=is_chosen,
            protocol="http",
            client=connection.peer,
            now=given[1],
        )
        return plain(*given) if trace is None else traced(*given, trace=trace)

    def begin_trace(
        self, traceparent: str, tracestate: str, *, protocol: str, client: str
    ) -> Trace | None:
        """See `Service`."""
        return self._tracer.begin(
            traceparent,
            tracestate,
            is_chosen=random() < self._ratio,
            protocol=protocol,
            client=client,
            now=time.monotonic(),
        )

    def submitted(self, trace: Trace, seq: int) -> None:
        """A traced request is on its way to the broker."""
        self._tracer.submitted(trace, seq, time.monotonic())

    def _told(self, message: Answers | Traces) -> None:
        if message.traces:
            self._tracer.told(message.traces)

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
        """See `Service`."""
        super().ended(call, version, status, code=code, detail=detail, size_bytes=size_bytes)
        if isinstance(call, Traced):
            self.trace_ended(call, call.trace, version, status, code)

    def trace_ended(
        self, call: Request, trace: Trace, version: str, status: int, code: str = ""
    ) -> None:
        """See `Service`."""
        trace.pipeline = call.pipeline_label
        trace.version, trace.status, trace.code = version, status, code
        trace.request_id = call.request_id
        self.table.untrace(trace.seq)
        self._tracer.ended(trace, time.monotonic())

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
