"""Items that are answered value by value, once the `forward` that began them has returned.

Their values go out as they come, and their end is the item's one answer. Until its first value a
stream may begin anew, as any item; after that it ends with an error when anything is lost.
"""

from collections.abc import Iterable

from broker.core.item import Item, Stream
from broker.core.ledger import Ledger
from broker.core.peers import Gateway, Worker
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    IDLE_BEAT_S,
    Blob,
    Failure,
    Step,
    StreamCredit,
    Streamed,
    StreamKey,
)

MISSING_BEATS = 2
MISSING_AFTER_S = 1.0
"""A stream is lost that its worker does not name in so many beats, this long after it opened."""


def advance(ledger: Ledger, worker: Worker, steps: Iterable[Step], now: float) -> None:
    """A worker says what its streams have come to."""
    worker.spoke = now
    for step in steps:
        key = (step.lease, step.place)
        item = worker.streams.get(key)
        if item is None:
            ledger.stop_stream(worker.id, key)
            ledger.discard(step.outcome)
        else:
            _advance(ledger, item, step, now)


def _advance(ledger: Ledger, item: Item, step: Step, now: float) -> None:
    stream = item.stream
    assert stream is not None, "an item among a worker's streams has one"
    outcome = step.outcome
    if step.number <= stream.values:
        ledger.discard(outcome)  # it came twice
    elif step.number > stream.values + 1:
        ledger.discard(outcome)
        _lost_on_the_way(ledger, item, stream)
    elif type(outcome) is Failure:
        item.stage.failed += 1
        ledger.answer(item, outcome)
    elif type(outcome) is Streamed:
        item.stage.done += 1
        ledger.answer(item, Streamed(stream.values))
    elif (type(outcome) is Blob and outcome.refs) or not stream.window.is_open:
        ledger.discard(outcome)  # no worker of ours does that
        text = f"the worker of stage {item.stage.name!r} broke the rules of streams"
        ledger.break_stream(item, stream, ErrorCode.WORKER_ERROR, text)
    else:
        assert not isinstance(outcome, Failure | Streamed)
        ledger.pass_value(item, stream, outcome, now)


def _lost_on_the_way(ledger: Ledger, item: Item, stream: Stream) -> None:
    ledger.counters["streams_broken"] += 1
    text = "a value of the stream was lost on its way"
    ledger.break_stream(item, stream, ErrorCode.WORKER_LOST, text)


def credit(ledger: Ledger, gateway: Gateway, taken: Iterable[tuple[int, int]], now: float) -> None:
    """Clients have taken what was sent: their workers may go on."""
    by_worker: dict[bytes, list[tuple[int, int, int]]] = {}
    for seq, values in taken:
        item = gateway.items.get(seq)
        if item is None or item.stream is None:
            continue
        stream = item.stream
        ledger.values_taken(item, stream, values, now)
        by_worker.setdefault(stream.worker.id, []).append((*stream.key, values))
    for worker, credits in by_worker.items():
        ledger.send(worker, StreamCredit(ledger.epoch, credits))


def compare(ledger: Ledger, worker: Worker, named: Iterable[StreamKey], now: float) -> None:
    """A worker says which streams it has open: what differs was lost on the way."""
    open_ = set(named)
    for key, item in list(worker.streams.items()):
        stream = item.stream
        assert stream is not None, "an item among a worker's streams has one"
        if key in open_ or now - stream.opened < MISSING_AFTER_S:
            stream.missing = 0
            continue
        stream.missing += 1
        if stream.missing >= MISSING_BEATS:
            _lost_on_the_way(ledger, item, stream)
    for key in open_ - worker.streams.keys():
        ledger.stop_stream(worker.id, key)


def hangs(worker: Worker, now: float) -> str:
    """Why a worker that may be in a step is taken to hang; "" while it is not. In a step it says
    nothing, and otherwise it beats: so one that is silent for too long does not come back from one.
    """
    silent_s = now - worker.spoke
    if silent_s <= IDLE_BEAT_S:
        return ""
    stages = {item.stage for item in worker.streams.values()} or worker.stages
    most = max(stage.config.forward_timeout_s for stage in stages)
    if silent_s > most + IDLE_BEAT_S:
        return f"a step of a stream took longer than forward_timeout_s = {most:g}"
    return ""


def end_all(ledger: Ledger, code: ErrorCode, message: str) -> None:
    """The time for finishing them is over."""
    for worker in [peer for peer in ledger.peers.values() if isinstance(peer, Worker)]:
        for item in list(worker.streams.values()):
            assert item.stream is not None, "an item among a worker's streams has one"
            ledger.break_stream(item, item.stream, code, message)
