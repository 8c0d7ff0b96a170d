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

DRAWN_AT_ONCE = 64
"""Ids of traces to come: what is done for many is done in half the time for each."""
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
        self._drawn: list[TraceContext] = []
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
        if parent is None:
            return Trace(self._draw(), None, "", protocol, client, now)
        context = TraceContext(parent.trace_id, _span_id(), True)
        return Trace(context, parent, tracestate, protocol, client, now)

    # OpenTelemetry's sampler `traceidratio` takes the traces whose lower half is below a bound.

    def _goes_on(self, parent: TraceContext) -> bool:
        if self._heeds_clients:
            return parent.is_sampled
        return int(parent.trace_id[16:], 16) < self._bound

    def _draw(self) -> TraceContext:
        """Of a trace that begins here: one that others take, too, who take the same share."""
        if not self._drawn:
            bound = self._bound
            self._drawn = [
                TraceContext(
                    f"{getrandbits(64) or 1:016x}{getrandbits(64) * bound >> 64:016x}",
                    _span_id(),
                    True,
                )
                for _ in range(DRAWN_AT_ONCE)
            ]
        return self._drawn.pop()

    def submitted(self, traces: Sequence[Trace]) -> None:
        """These have gone to the broker by the number that they have now, perhaps again."""
        for trace in traces:
            self._open[trace.seq] = trace

    def told(self, traces: Sequence[RequestTrace]) -> None:
        """The broker tells of requests that have left it, before their ends are told."""
        for each in traces:
            trace = self._open.get(each.seq)
            if trace is None:
                continue
            trace.told = each
            if self._ended.pop(each.seq, None) is not None:
                self._finish(trace)

    def ended(self, trace: Trace) -> None:
        """The request has its answer, or its client has gone; the trace says which, and when."""
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


def _span_id() -> str:
    return f"{getrandbits(64) or 1:016x}"
