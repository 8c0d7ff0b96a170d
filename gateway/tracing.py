"""Which requests are traced, what is known of each, and when its trace is complete. Pure.

A traced request is one span of its gateway, whose id goes with it to the broker and to plug-ins.
The broker tells where the request has been with its answer, and everything else is made of that,
once: `spans.py`.
"""

from collections.abc import Callable, Sequence
from random import getrandbits
from typing import TypeAlias

from msgspec import Struct

from broker.wire.messages import RequestTrace
from broker.wire.trace import TraceContext, parse_traceparent
from gateway.options import Sampling

PATIENCE_S = 2.0
"""How long the broker may take to tell of a request that ended here, and not by its answer."""
_UNANSWERED = frozenset({"deadline_exceeded", "client_gone"})


class Trace(Struct, eq=False, array_like=True, gc=False):
    """One traced request, from its arrival on. Moments are this process's monotonic seconds."""

    context: TraceContext
    parent: TraceContext | None  # the client's span
    tracestate: str
    protocol: str
    client: str
    arrived_s: float
    seq: int = 0
    submitted_s: float = 0.0
    ended_s: float = 0.0
    pipeline: str = ""
    version: str = ""
    status: int = 0
    code: str = ""
    request_id: str = ""
    told: RequestTrace | None = None


Export: TypeAlias = Callable[[Trace], None]


class Tracer:
    """See the module. `tick` a few times a second."""

    def __init__(self, export: Export, sampling: Sampling) -> None:
        self._export = export
        self._heeds_clients = sampling.heeds_clients
        self._bound = round(sampling.ratio * 2**64)
        self._open: dict[int, Trace] = {}  # by their number in the table
        self._ended: dict[int, Trace] = {}  # of these, the broker has not told yet; oldest first

    def begin(
        self,
        traceparent: str,
        tracestate: str,
        *,
        is_chosen: bool,
        protocol: str,
        client: str,
        now: float,
    ) -> Trace | None:
        """The trace of a request that has come now; None for most.

        `is_chosen` is for those that belong to no trace yet.
        """
        parent = parse_traceparent(traceparent) if traceparent else None
        if not (is_chosen if parent is None else self._goes_on(parent)):
            return None
        trace_id = self._new_id() if parent is None else parent.trace_id
        context = TraceContext(trace_id, f"{getrandbits(64) or 1:016x}", True)
        return Trace(context, parent, tracestate if parent else "", protocol, client, now)

    # OpenTelemetry's sampler `traceidratio` takes the traces whose lower half is below a bound.

    def _goes_on(self, parent: TraceContext) -> bool:
        if self._heeds_clients:
            return parent.is_sampled
        return int(parent.trace_id[16:], 16) < self._bound

    def _new_id(self) -> str:
        """One that others take, too, who take the same share."""
        return f"{getrandbits(64) or 1:016x}{getrandbits(64) * self._bound >> 64:016x}"

    def submitted(self, trace: Trace, seq: int, now: float) -> None:
        """It has got this number; it may get another one, when it finds its home."""
        self._open.pop(trace.seq, None)
        trace.seq = seq
        trace.submitted_s = now
        self._open[seq] = trace

    def told(self, traces: Sequence[RequestTrace]) -> None:
        """The broker tells of requests that have left it, before their answers are dealt with."""
        for each in traces:
            trace = self._open.get(each.seq)
            if trace is None:
                continue
            trace.told = each
            if self._ended.pop(each.seq, None) is not None:
                self._finish(trace)

    def ended(self, trace: Trace, now: float) -> None:
        """The request has its answer, or its client has gone; the trace says which."""
        if trace.ended_s:
            return
        trace.ended_s = now
        if trace.seq and trace.told is None and trace.code in _UNANSWERED:
            self._ended[trace.seq] = trace
        else:
            self._finish(trace)

    def tick(self, now: float) -> None:
        """Nobody will tell any more of what ended long ago."""
        while self._ended:
            trace = next(iter(self._ended.values()))
            if now - trace.ended_s < PATIENCE_S:
                return
            del self._ended[trace.seq]
            self._finish(trace)

    def close(self) -> None:
        """At the end of this process: nothing more will be told."""
        ended, self._ended = self._ended, {}
        for trace in ended.values():
            self._finish(trace)

    def _finish(self, trace: Trace) -> None:
        self._open.pop(trace.seq, None)
        self._export(trace)
