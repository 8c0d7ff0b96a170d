"""Answers of requests and of their copies, until both are there, and what the comparer finds.

An answer waits for the other one within the bounds of the copies. Where one of the two is an error
there is nothing to be compared; other pairs are the comparer's, as many as it can take.
"""

from broker.core.agreement import Agreement
from broker.core.events import Comparing
from broker.core.ledger import Ledger
from broker.core.mirror import Mirror, Pair
from broker.core.peers import Comparer, Sent, Supervisor
from broker.core.slots import slots_of
from broker.wire import messages as m
from broker.wire.errors import ErrorCode
from broker.wire.messages import Answer, Blob, Failure, Streamed, Verdict

PAUSE_S = 60.0
"""No copies are made for so long after one cost a worker that real requests share."""

AT_COMPARER = 256
AT_COMPARER_BYTES = 8 << 20
"""Pairs that the comparer has at a time; beyond that they are dropped."""

VERDICT_S = 60.0
"""A pair of which the comparer says nothing for so long is given up."""

LARGE_BYTES = 1 << 20
"""Answers that are larger are not compared: the broker would have to copy them."""

_ITS_OWN = frozenset({ErrorCode.WORKER_ERROR, ErrorCode.REJECTED})
"""Errors that a version comes to by itself."""


def collect(ledger: Ledger, now: float) -> None:
    """Look for both halves of pairs in what leaves at the end of this turn."""
    ready: list[m.Pair] = []
    for mirror in ledger.mirrors.values():
        gateway = mirror.gateway
        ledger.answering.pop(gateway.id, None)
        answers, gateway.answers = gateway.answers, []
        for answer in answers:
            if (pair := mirror.pairs.get(answer.seq)) is not None:
                _copy_answered(ledger, mirror, pair, answer, now)
                _try_compare(ledger, mirror, pair, ready, now)
    for gateway in ledger.answering.values():
        for answer in gateway.answers if gateway.pairs else ():
            if (pair := gateway.pairs.pop(answer.seq, None)) is not None:
                found = pair.item.pipeline.mirror
                assert found is not None, "pairs go with their mirror"
                _answered(ledger, found, pair, answer)
                _try_compare(ledger, found, pair, ready, now)
    if ready and ledger.comparer is not None:
        ledger.send(ledger.comparer.id, m.Compare(ledger.epoch, ready), fetch=True)


def _copy_answered(ledger: Ledger, mirror: Mirror, pair: Pair, answer: Answer, now: float) -> None:
    pair.shadow = answer
    outcome = answer.outcome
    if type(outcome) is Failure and outcome.code not in _ITS_OWN:
        late = outcome.code == ErrorCode.DEADLINE_EXCEEDED
        if not late and not pair.copy.stage.versioned:
            mirror.paused_until = now + PAUSE_S
            ledger.note("shadow_paused", pipeline=mirror.pipeline.name, reason=outcome.message)
        drop(ledger, mirror, pair, "late" if late else "lost")
    else:
        _hold(ledger, mirror, pair, answer)


def _answered(ledger: Ledger, mirror: Mirror, pair: Pair, answer: Answer) -> None:
    pair.stable = answer
    outcome = answer.outcome
    if type(outcome) is Streamed:
        drop(ledger, mirror, pair, "stream")
    elif type(outcome) is Failure and outcome.code != ErrorCode.REJECTED:
        drop(ledger, mirror, pair, "no answer")
    else:
        _hold(ledger, mirror, pair, answer)


def _hold(ledger: Ledger, mirror: Mirror, pair: Pair, answer: Answer) -> None:
    """An answer waits for the other one, if there is room."""
    outcome = answer.outcome
    if type(outcome) is Failure or type(outcome) is Streamed:
        return
    assert not isinstance(outcome, Failure | Streamed)
    size = len(outcome)
    if size > LARGE_BYTES:
        drop(ledger, mirror, pair, "large")
        return
    if mirror.bytes + size > mirror.copies.config.max_bytes:
        drop(ledger, mirror, pair, "full")
        return
    pair.size += size
    mirror.held += size
    if type(outcome) is Blob and outcome.refs:
        slots = slots_of(outcome)
        ledger.slots.hold(slots)
        pair.slots += slots


def _try_compare(
    ledger: Ledger, mirror: Mirror, pair: Pair, ready: list[m.Pair], now: float
) -> None:
    """Where both answers are there: what can be told from them, or a pair for the comparer."""
    stable, shadow = pair.stable, pair.shadow
    if stable is None or shadow is None or pair.copy.seq not in mirror.pairs:
        return
    figures = mirror.pipeline.agreements.of(pair.item.version, mirror.version)
    one, other = stable.outcome, shadow.outcome
    if type(one) is Failure or type(other) is Failure:
        _judge_failures(figures, one, other)
    else:
        assert not isinstance(one, Failure | Streamed)
        assert not isinstance(other, Failure | Streamed)
        number = _send_on(ledger, figures, pair.size, now)
        if number:
            rule = mirror.pipeline.config.shadow
            ready.append(
                m.Pair(
                    number,
                    one,
                    other,
                    stable.content_type,
                    shadow.content_type,
                    rule.compare,
                    rule.rtol,
                    rule.atol,
                    rule.key,
                    _plugin(ledger, mirror),
                )
            )
    ledger.outgoing += pair.slots  # held until it has left
    pair.slots = ()
    _forget(ledger, mirror, pair)


def _judge_failures(figures: Agreement, stable: m.Outcome, shadow: m.Outcome) -> None:
    """One of them is an error: they are alike if both refuse the request, with the same status."""
    if type(stable) is Failure and type(shadow) is Failure and stable.code == shadow.code:
        kind = "agreed" if stable.status == shadow.status else "differs"
    else:
        kind = "failed" if type(shadow) is Failure else "differs"
    texts = [each.message if type(each) is Failure else "an answer" for each in (stable, shadow)]
    figures.judge(kind, *texts)


def _send_on(ledger: Ledger, figures: Agreement, size: int, now: float) -> int:
    """The number of a pair that goes to the comparer; 0 where it is not there, or too slow."""
    comparer = ledger.comparer
    if comparer is None:
        figures.dropped["no comparer"] += 1
        return 0
    if len(comparer.waiting) >= AT_COMPARER or comparer.bytes + size > AT_COMPARER_BYTES:
        figures.dropped["comparer busy"] += 1
        return 0
    ledger.pair_ids += 1
    comparer.waiting[ledger.pair_ids] = Sent(figures, size, now)
    comparer.bytes += size
    return ledger.pair_ids


def _plugin(ledger: Ledger, mirror: Mirror) -> str:
    """Script and class of the last stage, as whoever may run its copies says; "" where nobody is
    there.
    """
    last = mirror.copies.stages[-1]
    lane = last.lane(mirror.version)
    for worker in last.workers.values():
        supervisor = ledger.peers.get(worker.supervisor)
        if lane.suits(worker) and isinstance(supervisor, Supervisor):
            return f"{supervisor.hello.script}:{worker.hello.plugin}"
    return ""


def drop(ledger: Ledger, mirror: Mirror, pair: Pair, reason: str) -> None:
    """This pair will not be compared."""
    mirror.pipeline.agreements.of(pair.item.version, mirror.version).dropped[reason] += 1
    if pair.copy.seq in mirror.gateway.items:
        ledger.drop(pair.copy)
    if pair.slots:
        ledger.slots.release(pair.slots)
        pair.slots = ()
    _forget(ledger, mirror, pair)


def _forget(ledger: Ledger, mirror: Mirror, pair: Pair) -> None:
    mirror.held -= pair.size
    del mirror.pairs[pair.copy.seq]
    if pair.item.gateway.pairs.get(pair.item.seq) is pair:
        del pair.item.gateway.pairs[pair.item.seq]


# ------------------------------------------------------------------ the comparer


def judged(comparer: Comparer, verdicts: list[Verdict]) -> None:
    """What the comparer found. A pair that it was not sent is nobody's."""
    for verdict in verdicts:
        sent = comparer.waiting.pop(verdict.pair, None)
        if sent is None:
            continue
        comparer.bytes -= sent.size
        if verdict.unread:
            sent.agreement.dropped["unreadable"] += 1
        else:
            kind = "agreed" if verdict.agree else "differs"
            sent.agreement.judge(kind, verdict.stable, verdict.shadow)
        sent.agreement.note = verdict.note


def give_up_verdicts(comparer: Comparer, now: float) -> None:
    """What was sent so long ago has got lost on its way."""
    for number, sent in list(comparer.waiting.items()):
        if now - sent.at < VERDICT_S:
            return
        del comparer.waiting[number]
        comparer.bytes -= sent.size
        sent.agreement.dropped["no verdict"] += 1


def lose_comparer(ledger: Ledger, comparer: Comparer, reason: str) -> None:
    """It is gone, with what it was sent."""
    for sent in comparer.waiting.values():
        sent.agreement.dropped["comparer lost"] += 1
    ledger.peers.pop(comparer.id, None)
    ledger.note("comparer_lost", reason=reason)
    if ledger.comparer is comparer:
        ledger.comparer = None
        if ledger.mirrors:
            tell_whether_wanted(ledger)


def tell_whether_wanted(ledger: Ledger) -> None:
    """The shell starts a comparer, or ends it."""
    if ledger.mirrors and ledger.comparer is None:
        ledger.actions.append(Comparing(wanted=True))
    elif not ledger.mirrors:
        ledger.actions.append(Comparing(wanted=False))
