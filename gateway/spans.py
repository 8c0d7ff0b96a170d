"""A trace as spans: what OpenTelemetry is told of one request. Pure.

    infer digits                  the gateway's, from arrival to answer
      queue infer                 one for each run in a stage: its wait for a worker
      batch infer                 from the broker to a worker and back; linked to all in the batch
        decode infer, forward infer, encode infer
        wait infer                in the worker, behind the batch before

Times of the broker and of workers are durations, since clocks of hosts differ. What is left over
between what the outer one measured and what the inner ones did is the way there and back, and is
shared by halves: so each span lies within its parent.
"""

from collections.abc import Iterator
from random import getrandbits

from msgspec import Struct

from broker.wire.messages import SpanKey, Visit
from gateway.tracing import Trace

PHASES = ("wait", "decode", "forward", "encode")
_SHORTEST_WAIT_S = 1e-4
"""A batch that is begun sooner than this has not waited."""


class Span(Struct):
    """One span. Moments are in the seconds of the gateway's clock that the trace was taken with."""

    name: str
    span_id: str
    parent_id: str
    start_s: float
    end_s: float
    attributes: dict[str, str | int | float | bool]
    links: list[SpanKey] = []
    error: str | None = None  # what became of it, where that is no success
    is_request: bool = False


def spans_of(trace: Trace) -> list[Span]:
    """All spans of a trace that has ended, the request's first."""
    spans = [_request(trace)]
    told = trace.told
    if told is not None:
        way_s = max(trace.ended_s - trace.submitted_s - told.age_s, 0.0) / 2 if told.age_s else 0.0
        base_s = trace.submitted_s + way_s
        for visit in told.visits:
            spans += _visit(visit, base_s, trace)
    return spans


def _request(trace: Trace) -> Span:
    attributes: dict[str, str | int | float | bool] = {
        "millstream.request_id": trace.request_id,
        "millstream.pipeline": trace.pipeline,
        "network.protocol.name": trace.protocol,
        "http.response.status_code": trace.status,
    }
    if trace.client:
        attributes["client.address"] = trace.client
    if trace.version:
        attributes["millstream.version"] = trace.version
    if trace.code:
        attributes["error.type"] = trace.code
    return Span(
        f"infer {trace.pipeline}",
        trace.context.span_id,
        trace.parent.span_id if trace.parent is not None else "",
        trace.arrived_s,
        trace.ended_s,
        attributes,
        error=trace.code if trace.status >= 500 else None,
        is_request=True,
    )


def _visit(visit: Visit, base_s: float, trace: Trace) -> Iterator[Span]:
    root = trace.context.span_id
    stage = visit.stage
    entered_s = base_s + max(visit.entered_s, 0.0)
    was_sent = visit.sent_s >= 0.0
    # What had not ended when the request did goes on unseen.
    ended_s = base_s + visit.ended_s if visit.ended_s >= 0.0 else trace.ended_s
    ended_s = max(ended_s, entered_s)
    sent_s = min(base_s + visit.sent_s, ended_s) if was_sent else ended_s
    attributes: dict[str, str | int | float | bool] = {
        "millstream.stage": stage,
        "millstream.attempt": visit.attempt,
    }
    queue_error = None if was_sent else visit.outcome or None
    yield Span(f"queue {stage}", _new_id(), root, entered_s, sent_s, attributes, error=queue_error)
    if not was_sent:
        return
    batch = Span(
        f"batch {stage}",
        _new_id(),
        root,
        sent_s,
        ended_s,
        {
            **attributes,
            "millstream.worker.index": visit.index,
            "host.name": visit.host,
            "process.pid": visit.pid,
            "millstream.version": visit.version,
            "millstream.batch.id": visit.batch,
            "millstream.batch.size": visit.size,
        },
        links=visit.links,
        error=visit.outcome or None,
    )
    if visit.outcome:
        batch.attributes["error.type"] = visit.outcome
    yield batch
    yield from _phases(visit, batch)


def _phases(visit: Visit, batch: Span) -> Iterator[Span]:
    if len(visit.phases) != len(PHASES):
        return
    lengths = [max(each, 0.0) for each in visit.phases]
    spare_s = batch.end_s - batch.start_s - sum(lengths)
    at_s = batch.start_s + max(spare_s, 0.0) / 2
    for name, length_s in zip(PHASES, lengths, strict=True):
        end_s = min(at_s + length_s, batch.end_s)
        if name != "wait" or length_s >= _SHORTEST_WAIT_S:
            attributes = {"millstream.stage": visit.stage}
            yield Span(
                f"{name} {visit.stage}", _new_id(), batch.span_id, at_s, end_s, dict(attributes)
            )
        at_s = end_s


def _new_id() -> str:
    return f"{getrandbits(64) or 1:016x}"
