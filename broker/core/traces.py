"""Where traced requests have been: what becomes a trace at their gateways. Pure.

Only requests that a gateway has chosen are in `ledger.traced`, most of the time none at all:
whoever calls here has looked whether there are any, in the ledger or in a lease, which is all that
the others pay. A lease knows which of its items are.
"""

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Answer,
    Failure,
    RequestTrace,
    Results,
    SpanKey,
    Traces,
    Visit,
)

if TYPE_CHECKING:
    from broker.core.item import Item, Lease
    from broker.core.ledger import Ledger
    from broker.core.peers import Gateway

MOST_VISITS = 64
"""Beyond any chain and its attempts."""
MOST_LINKS = 128
"""As many as OpenTelemetry keeps of a span, unless told otherwise."""
PHASES = 4
LONGEST_S = 1e6
"""What a worker says of a phase beyond this, or NaN, would spoil the trace."""
LOST = "worker_lost"
KEPT_S = 30.0
"""So long it is known where a request was that begins anew, until its gateway submits it again."""

Traced: TypeAlias = "dict[bytes, dict[int, ItemTrace]]"
"""By gateway and its number for the request: the same when it is submitted again. One that has none
is not in it.
"""


class ItemTrace(Struct, eq=False):
    """Where one request has been."""

    span: SpanKey
    began: float
    waits_since: float
    visits: list[Visit] = []

    def visit(
        self, item: "Item", lease: "Lease | None", outcome: str, ended: float | None
    ) -> Visit:
        """The item waited, and was run unless there is no lease; `ended` is None where it still
        is where it was.
        """
        began = self.began
        entered_s = self.waits_since - began
        ended_s = -1.0 if ended is None else ended - began
        if lease is None:
            visit = Visit(item.stage.name, item.attempts + 1, entered_s, -1.0, ended_s, outcome)
        else:
            hello = lease.worker.hello
            visit = Visit(
                item.stage.name,
                item.attempts + 1,
                entered_s,
                lease.sent - began,
                ended_s,
                outcome,
                hello.index,
                hello.pid,
                hello.host,
                hello.version,
                lease.id,
                lease.size,
            )
        if len(self.visits) < MOST_VISITS:
            self.visits.append(visit)
        return visit


def begin(
    ledger: "Ledger", gateway: "Gateway", spans: list[tuple[int, SpanKey]], now: float
) -> None:
    """These are traced, as far as they were taken in; a trace that has begun goes on."""
    traced = ledger.traced
    for seq, span in spans:
        item = gateway.items.get(seq)
        if item is not None:
            item.trace = traced.setdefault(gateway.id, {}).setdefault(
                seq, ItemTrace(span, now, now)
            )


def traces_of(items: "list[Item]") -> "list[tuple[Item, ItemTrace]]":
    """Of a batch that is about to be sent: it is timed if there are any."""
    return [(item, item.trace) for item in items if item.trace is not None]


def lease_ended(lease: "Lease", now: float) -> None:
    """A batch is no longer at its worker: lost, for all that is known yet."""
    links = [trace.span for _, trace in lease.traced[:MOST_LINKS]]
    for item, trace in lease.traced:
        if item.lease is lease:
            trace.visit(item, lease, LOST, now).links = links
            trace.waits_since = now


def results_came(lease: "Lease", results: Results) -> None:
    """It was not lost: these are its results, one for each item."""
    phases = [min(max(0.0, each), LONGEST_S) for each in results.phases[:PHASES]]
    for item, trace in lease.traced:
        if item.lease is lease:
            outcome = results.outcomes[lease.items.index(item)]
            visit = trace.visits[-1]
            visit.outcome = _name(outcome.code) if isinstance(outcome, Failure) else ""
            visit.phases = phases


def given_back(lease: "Lease") -> None:
    """It was not lost, and had not been begun."""
    for item, trace in lease.traced:
        if item.lease is lease:
            trace.visits[-1].outcome = "returned"


def leaves_unfinished(item: "Item", outcome: str) -> None:
    """An item leaves from wherever it is."""
    if item.trace is not None:
        item.trace.visit(item, item.lease, outcome, None)


def tell_cancelled(ledger: "Ledger", item: "Item") -> None:
    """It leaves without an answer, with which its trace would go."""
    trace = item.trace
    if trace is not None:
        _forget(ledger, item.gateway.id, item.seq)
        told = RequestTrace(item.seq, 0.0, trace.visits)
        ledger.send(item.gateway.id, Traces(ledger.epoch, [told]))


def of_answered(
    ledger: "Ledger", gateway: "Gateway", answers: list[Answer], now: float
) -> list[RequestTrace]:
    """Those of these answers, which are about to be sent."""
    traced = ledger.traced.get(gateway.id)
    if traced is None:
        return []
    told = []
    for seq in [answer.seq for answer in answers if answer.seq in traced]:
        trace = traced.pop(seq)
        told.append(RequestTrace(seq, now - trace.began, trace.visits))
    if not traced:
        del ledger.traced[gateway.id]
    return told


def forget_gateway(ledger: "Ledger", gateway: "Gateway") -> None:
    """Nobody is there to be told."""
    ledger.traced.pop(gateway.id, None)


def forget_old(ledger: "Ledger", now: float) -> None:
    """Now and then: what was to begin anew, and was not submitted again."""
    for id, traced in list(ledger.traced.items()):
        waiting = getattr(ledger.peers.get(id), "items", ())
        for seq, trace in list(traced.items()):
            if seq not in waiting and now - trace.waits_since > KEPT_S:
                _forget(ledger, id, seq)


def _forget(ledger: "Ledger", id: bytes, seq: int) -> None:
    traced = ledger.traced[id]
    del traced[seq]
    if not traced:
        del ledger.traced[id]


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name.lower()
    except ValueError:
        return str(code)
