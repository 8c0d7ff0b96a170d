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
from functools import lru_cache
from random import getrandbits
from typing import TypeAlias

from msgspec import Struct

from broker.wire.messages import SpanKey, Visit
from gateway.tracing import Trace

PHASES = ("wait", "decode", "forward", "encode")
_SHORTEST_WAIT_S = 1e-4
"""A batch that is begun sooner than this has not waited."""
KEPT = 1024
"""Kinds of spans, each for its own sort: few for each worker."""

Value: TypeAlias = str | int


class Kind(Struct, frozen=True, eq=False, gc=False):
    """What many spans have in common; there is one of each."""

    name: str
    attributes: dict[str, Value]
    error: str | None = None  # what became of it, where that is no success
    is_request: bool = False


class Span(Struct, gc=False):
    """One span. Moments are in the seconds of the gateway's clock that the trace was taken with."""

    kind: Kind
    span_id: bytes
    parent_id: bytes
    start_s: float
    end_s: float
    attributes: dict[str, Value] = {}  # beside those of its kind
    links: list[SpanKey] = []

    @property
    def name(self) -> str:
        """Of its kind."""
        return self.kind.name

    @property
    def error(self) -> str | None:
        """Of its kind."""
        return self.kind.error


def spans_of(trace: Trace) -> list[Span]:
    """All spans of a trace that has ended, the request's first."""
    request = _request(trace)
    spans = [request]
    told = trace.told
    if told is not None:
        way_s = max(trace.ended_s - trace.submitted_s - told.age_s, 0.0) / 2 if told.age_s else 0.0
        base_s = trace.submitted_s + way_s
        for visit in told.visits:
            spans += _visit(visit, base_s, request)
    return spans


def _request(trace: Trace) -> Span:
    attributes: dict[str, Value] = {"millstream.request_id": trace.request_id}
    if trace.client:
        attributes["client.address"] = trace.client
    return Span(
        _request_kind(trace.pipeline, trace.protocol, trace.version, trace.status, trace.code),
        bytes.fromhex(trace.context.span_id),
        bytes.fromhex(trace.parent.span_id) if trace.parent is not None else b"",
        trace.arrived_s,
        trace.ended_s,
        attributes,
    )


@lru_cache(KEPT)
def _request_kind(pipeline: str, protocol: str, version: str, status: int, code: str) -> Kind:
    attributes: dict[str, Value] = {
        "millstream.pipeline": pipeline,
        "network.protocol.name": protocol,
        "http.response.status_code": status,
    }
    if version:
        attributes["millstream.version"] = version
    if code:
        attributes["error.type"] = code
    return Kind(f"infer {pipeline}", attributes, code if status >= 500 else None, True)


def _visit(visit: Visit, base_s: float, request: Span) -> Iterator[Span]:
    root = request.span_id
    entered_s = base_s + max(visit.entered_s, 0.0)
    was_sent = visit.sent_s >= 0.0
    # What had not ended when the request did goes on unseen.
    ended_s = base_s + visit.ended_s if visit.ended_s >= 0.0 else request.end_s
    ended_s = max(ended_s, entered_s)
    sent_s = min(base_s + visit.sent_s, ended_s) if was_sent else ended_s
    queue = _queue_kind(visit.stage, visit.attempt, "" if was_sent else visit.outcome)
    yield Span(queue, _new_id(), root, entered_s, sent_s)
    if not was_sent:
        return
    kind = _batch_kind(
        visit.stage,
        visit.attempt,
        visit.index,
        visit.host,
        visit.pid,
        visit.version,
        visit.outcome,
    )
    batch: dict[str, Value] = {
        "millstream.batch.id": visit.batch,
        "millstream.batch.size": visit.size,
    }
    span_id = _new_id()
    yield Span(kind, span_id, root, sent_s, ended_s, batch, visit.links)
    if len(visit.phases) == len(PHASES):
        yield from _phases(visit, span_id, sent_s, ended_s)


@lru_cache(KEPT)
def _queue_kind(stage: str, attempt: int, outcome: str) -> Kind:
    attributes: dict[str, Value] = {"millstream.stage": stage, "millstream.attempt": attempt}
    return Kind(f"queue {stage}", attributes, outcome or None)


@lru_cache(KEPT)
def _batch_kind(  # noqa: PLR0917  # keywords cost
    stage: str, attempt: int, index: int, host: str, pid: int, version: str, outcome: str
) -> Kind:
    attributes: dict[str, Value] = {
        "millstream.stage": stage,
        "millstream.attempt": attempt,
        "millstream.worker.index": index,
        "host.name": host,
        "process.pid": pid,
        "millstream.version": version,
    }
    if outcome:
        attributes["error.type"] = outcome
    return Kind(f"batch {stage}", attributes, outcome or None)


def _phases(visit: Visit, batch: bytes, start_s: float, ended_s: float) -> Iterator[Span]:
    lengths = [max(each, 0.0) for each in visit.phases]
    spare_s = ended_s - start_s - sum(lengths)
    at_s = start_s + max(spare_s, 0.0) / 2
    for name, length_s in zip(PHASES, lengths, strict=True):
        end_s = min(at_s + length_s, ended_s)
        if name != "wait" or length_s >= _SHORTEST_WAIT_S:
            yield Span(_phase_kind(name, visit.stage), _new_id(), batch, at_s, end_s)
        at_s = end_s


@lru_cache(KEPT)
def _phase_kind(phase: str, stage: str) -> Kind:
    return Kind(f"{phase} {stage}", {"millstream.stage": stage})


def _new_id() -> bytes:
    return (getrandbits(64) or 1).to_bytes(8)
