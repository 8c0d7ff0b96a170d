"""What a worker answers: outcomes go on to the next stage, or out to the client."""

from collections.abc import Callable

from broker.core.figures import Figures
from broker.core.item import DEFAULT_VERSION, Item, Lease
from broker.core.keeping import keep
from broker.core.ledger import Ledger
from broker.core.peers import Worker
from broker.core.shadow import drop_stream
from broker.core.shortage import ran_short
from broker.core.states import ItemState, ItemTrigger
from broker.core.traces import results_came
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, Outcome, Results, Streamed

PACE_WEIGHT = 0.03
"""Of the latest batch, in what is known of a worker's pace."""

LONGEST_RUN_S = 1e6
"""What a worker says beyond this, or NaN, would spoil every figure that is made of it."""


def accept(ledger: Ledger, sender: bytes, results: Results, now: float) -> None:
    """Take the results of a batch, also of one whose worker had been given up."""
    lease = ledger.leases.get(results.lease)
    if lease is None or lease.worker.id != sender:
        _accept_late(ledger, sender, results, now)
        return
    worker = lease.worker
    worker.spoke = now
    ledger.end_lease(lease, now)
    if results.kept:
        keep(ledger, worker, results.kept)
    worker.batches += 1
    worker.items += lease.size
    run_s = _sane(results.run_s)
    worker.busy_s += run_s
    if lease.stage.last:
        tally = lease.stage.pipeline.tally(worker.version or DEFAULT_VERSION)
        tally.count_batch(lease.size, run_s, now)
    if len(results.outcomes) != lease.size:
        _wrong_length(ledger, lease, results.outcomes)
        return
    note_wait = _measure(lease, results, run_s, now)
    started = lease.sent if lease.started is None else lease.started
    if results.sample and run_s < LONGEST_RUN_S:
        _learn(lease, run_s)
        lease.stage.way.observe(now - started - run_s)
    if lease.traced:
        results_came(lease, results)
    pipeline = lease.stage.pipeline
    if pipeline.watches is not None and (results.sample or worker.concurrency > 1):
        _time(lease, run_s)
    if results.out_of_memory > 0:
        ran_short(ledger, lease.stage, worker, min(results.out_of_memory, lease.size), now)
    _note_times(lease, started, run_s)
    content_type = results.content_type
    for item, outcome in zip(lease.items, results.outcomes, strict=True):
        if item.lease is lease:
            wait_s = started - item.entered
            item.spans += (wait_s, run_s)
            note_wait(wait_s)
            _settle(ledger, item, outcome, now, lease, content_type)
            continue
        item.advance(ItemTrigger.LATE)
        ledger.discard(outcome)
        if type(outcome) is Streamed:
            ledger.stop_stream(sender, (lease.id, lease.items.index(item)))


def _learn(lease: Lease, run_s: float) -> None:
    """How long a batch takes, and how its worker compares with that."""
    worker = lease.worker
    estimate = lease.stage.estimate(worker.version)
    expected_s = estimate.predict(lease.size)
    if expected_s > 0.0:
        worker.pace += PACE_WEIGHT * (run_s / expected_s - worker.pace)
    estimate.observe(lease.size, run_s)


def _measure(lease: Lease, results: Results, run_s: float, now: float) -> Callable[[float], object]:
    """Count how long the parts of this batch took, and whether that was foreseen. Returns what is
    to be called with the wait of each of its items.
    """
    measures = lease.stage.measures
    if measures is None:
        return bool
    measures.ran(
        whole_s=now - (lease.sent if lease.started is None else lease.started),
        run_s=run_s,
        decode_s=min(_sane(results.decode_s), run_s),
        forward_s=min(_sane(results.forward_s), run_s),
    )
    if results.sample:
        estimate = lease.stage.estimates.get(lease.worker.version)
        predicted_s = estimate.predict(lease.size) if estimate is not None else 0.0
        if predicted_s > 0.0:
            measures.ratio.add(run_s / predicted_s)
    return measures.wait.add


def _note_times(lease: Lease, started: float, run_s: float) -> None:
    """One item stands for all of its batch, another one each time."""
    stage, size = lease.stage, lease.size
    item = lease.items[lease.id % size]
    if item.lease is lease:
        wait_s = started - item.entered
        recent = stage.pipeline.recent
        recent.stages[stage.index].batch(size, wait_s, run_s)
        if stage.last:
            recent.answered(size, sum(item.spans) + wait_s + run_s)


def _time(lease: Lease, run_s: float) -> None:
    """Versions of this pipeline are compared: remember how long this batch took."""
    stage, worker = lease.stage, lease.worker
    if stage.versioned:
        figures = stage.pipeline.tally(stage.version_of(worker))
        if isinstance(figures, Figures):
            figures.time(stage.index, lease.size, run_s)


def _accept_late(ledger: Ledger, sender: bytes, results: Results, now: float) -> None:
    """Results of a lease that is no more: use those whose item still waits in the same stage."""
    ledger.counters["results_late"] += 1
    worker = ledger.peers.get(sender)
    if results.kept and isinstance(worker, Worker):
        keep(ledger, worker, results.kept)
    lease = ledger.given_up.get(results.lease)
    if lease is None or lease.worker.id != sender or len(results.outcomes) != lease.size:
        for outcome in results.outcomes:
            ledger.discard(outcome)
        return
    del ledger.given_up[lease.id]
    for item, outcome in zip(lease.items, results.outcomes, strict=True):
        waits = item.state is ItemState.QUEUED and item.stage is lease.stage
        if waits and not _is_to_be_repeated(outcome):
            ledger.counters["results_late_used"] += 1
            item.spans += (max(lease.sent - item.entered, 0.0), _sane(results.run_s))
            _settle(ledger, item, outcome, now, lease, results.content_type)
        else:
            item.advance(ItemTrigger.LATE)
            ledger.discard(outcome)


def _is_to_be_repeated(outcome: Outcome) -> bool:
    """Whether an item came to no result for no fault of its own, or to a stream, which is lost."""
    if type(outcome) is Streamed:
        return True
    return type(outcome) is Failure and outcome.code in _TO_BE_REPEATED


_TO_BE_REPEATED = frozenset({ErrorCode.PAYLOAD_LOST, ErrorCode.OUT_OF_MEMORY})


def _sane(run_s: float) -> float:
    return min(max(0.0, run_s), LONGEST_RUN_S)


def _open(ledger: Ledger, item: Item, lease: Lease, now: float) -> None:
    """The item's result is a stream; a worker's runtime allows that in the last stage alone."""
    worker, key = lease.worker, (lease.id, lease.items.index(item))
    if item.pipeline.is_copy:
        drop_stream(ledger, item)
        ledger.stop_stream(worker.id, key)
    elif lease.stage.last:
        ledger.open_stream(item, worker, key, now)
    else:
        text = f"stage {lease.stage.name!r} streams, and is not the last"
        ledger.fail(item, ErrorCode.WORKER_ERROR, text)
        ledger.stop_stream(worker.id, key)


def _settle(  # noqa: PLR0917  # keywords cost
    ledger: Ledger, item: Item, outcome: Outcome, now: float, lease: Lease, content_type: str
) -> None:
    stage = lease.stage
    if lease.worker.version:
        item.answered_by = lease.worker.version
    if isinstance(outcome, Streamed):
        _open(ledger, item, lease, now)
    elif isinstance(outcome, Failure):
        _settle_failure(ledger, item, outcome)
    elif stage.last:
        stage.done += 1
        ledger.answer(item, outcome, content_type)
    else:
        stage.done += 1
        ledger.forward(item, outcome, now)


def _settle_failure(ledger: Ledger, item: Item, failure: Failure) -> None:
    if failure.code == ErrorCode.PAYLOAD_LOST:
        ledger.restart(item, failure.message)
    elif failure.code == ErrorCode.OUT_OF_MEMORY:
        _run_elsewhere(ledger, item)
    else:
        item.stage.failed += 1
        ledger.answer(item, failure)


def _run_elsewhere(ledger: Ledger, item: Item) -> None:
    """It ran out of memory alone, and its worker may be at fault: as after a death, it is run by
    itself, by a worker that has enough, as often as it may.
    """
    item.attempts += 1
    if item.attempts < item.stage.pipeline.config.attempts:
        ledger.requeue(item, "memory", suspect=True)
    else:
        text = f"stage {item.stage.name!r} has too little memory for this request"
        ledger.fail(item, ErrorCode.WORKER_ERROR, text)


def _wrong_length(ledger: Ledger, lease: Lease, outcomes: list[Outcome]) -> None:
    """A worker's runtime checks lengths; one that answers so is not ours, or broken."""
    ledger.counters["results_wrong_length"] += 1
    for outcome in outcomes:
        ledger.discard(outcome)
    for item in lease.items:
        if item.lease is lease:
            ledger.fail(
                item,
                ErrorCode.WORKER_ERROR,
                f"stage {lease.stage.name!r} answered {len(outcomes)} outcomes "
                f"for {lease.size} items",
            )
