"""Copies for a version that nobody sees: they are run when there is nothing else to do, and what
comes of them is compared with what the users got.

A pipeline with a shadow has a `Mirror`: a second pipeline of the stages from the first one with
versions on. It has queues, bounds and counts of its own, and shares the workers of the real stages,
so that copies count nowhere else. An item that comes into that stage is copied at the end of the
turn; a copy is sent to a worker that holds nothing and has nothing real waiting, and what may not
be run twice is not copied. When both have been answered, they are a pair for the comparer.
"""

from msgspec import Struct
from msgspec.structs import replace

from broker.core.agreement import Agreement
from broker.core.dispatch import hand_out
from broker.core.events import Comparing
from broker.core.item import ASKED, Item
from broker.core.ledger import Ledger
from broker.core.peers import Comparer, Gateway, Sent, Supervisor, Worker
from broker.core.slots import slots_of
from broker.core.stage import Lane, Pipeline, Stage
from broker.core.states import BrokerState, ItemState
from broker.wire import messages as m
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Answer,
    Blob,
    Failure,
    GatewayHello,
    Priority,
    SlotKey,
    Streamed,
    SubmitItem,
    Verdict,
)

PART = 8
"""Copies under way are no more than this part of the pipeline's items and bytes; beyond the bounds
of real requests, not out of them."""

PAUSE_S = 60.0
"""No copies are made for so long after one cost a worker that real requests share."""

SHARED_STRETCH = 2.0
"""In a stage that real requests share, a batch of copies takes no longer than so many times a copy
by itself: whoever comes then waits for that."""

AT_COMPARER = 256
AT_COMPARER_BYTES = 8 << 20
"""Pairs that the comparer has at a time; beyond that they are dropped."""

VERDICT_S = 60.0
"""A pair of which the comparer says nothing for so long is given up."""

LARGE_BYTES = 1 << 20
"""Answers that are larger are not compared: the broker would have to copy them."""

SPARE_S = 1.0
"""A copy is given up after `timeout_s`; its deadline is a little later."""

_UNDER_WAY = (ItemState.QUEUED, ItemState.LEASED)
_ITS_OWN = frozenset({ErrorCode.WORKER_ERROR, ErrorCode.REJECTED})
"""Errors that a version comes to by itself."""


class Pair(Struct, eq=False):
    """A request and its copy, until both are answered."""

    item: Item
    copy: Item
    stable: Answer | None = None
    shadow: Answer | None = None
    slots: tuple[SlotKey, ...] = ()  # held for these answers
    size: int = 0  # bytes of these answers


class Mirror:
    """The copies of one pipeline, for one version."""

    __slots__ = (
        "copies", "fork", "forked", "gateway", "held", "pairs", "paused_until", "pipeline", "seq",
        "shape", "version",
    )  # fmt: skip

    def __init__(self, pipeline: Pipeline, fork: Stage, version: str, now: float) -> None:
        self.pipeline = pipeline
        self.version = version
        self.fork = fork
        self.shape = _shape(pipeline)
        self.copies = _twin(pipeline, fork, now)
        self.gateway = Gateway(b"\0shadow " + pipeline.name.encode(), GatewayHello(0), now)
        self.pairs: dict[int, Pair] = {}  # by the number of the copy
        self.held = 0  # bytes of answers that wait for the other one
        self.seq = 0
        self.paused_until = now
        self.forked: list[Item] = []
        fork.forked = self.forked

    @property
    def bytes(self) -> int:
        return self.copies.bytes + self.held


def _shape(pipeline: Pipeline) -> list[bool]:
    return [stage.versioned for stage in pipeline.stages]


def _twin(pipeline: Pipeline, fork: Stage, now: float) -> Pipeline:
    """A pipeline for copies: bounds and queues of its own, the workers of this one."""
    config = pipeline.config
    own = replace(
        config,
        chain=config.chain[fork.index :],
        max_items=max(1, config.max_items // PART),
        max_bytes=config.max_bytes // PART,
        attempts=0,  # what is lost is lost
        guard=None,
    )
    twin = Pipeline(pipeline.name, own, now)
    twin.is_copy = True
    for stage, real in zip(twin.stages, pipeline.stages[fork.index :], strict=True):
        stage.first = real.first
        stage.measures = None
        stage.versioned = real.versioned
        stage.workers, stage.idle, stage.spare = real.workers, real.idle, real.spare
        stage.estimates, stage.caps = real.estimates, real.caps
    return twin


# ------------------------------------------------------------------ whether there are copies


def follow(ledger: Ledger, pipeline: Pipeline, now: float) -> None:
    """Versions or workers have changed: begin to make copies, or end it."""
    version = pipeline.rollout.traffic.shadow
    any_before = bool(ledger.mirrors)
    wanted = (
        version
        and ledger.state is BrokerState.RUNNING
        and version in pipeline.rollout.served
        and not hindrance(pipeline)
    )
    mirror = pipeline.mirror
    if mirror is not None:
        if wanted and mirror.version == version and mirror.shape == _shape(pipeline):
            return
        _close(ledger, mirror)
    if wanted:
        fork = next(stage for stage in pipeline.stages if stage.versioned)
        pipeline.mirror = ledger.mirrors[pipeline] = Mirror(pipeline, fork, version, now)
    if bool(ledger.mirrors) is not any_before:
        _tell_whether_wanted(ledger)


def hindrance(pipeline: Pipeline) -> str:
    """Why no copies may be made of this pipeline's items, or ""."""
    fork = next((stage for stage in pipeline.stages if stage.versioned), None)
    if fork is None:
        return "none of its stages has versions"
    for stage in pipeline.stages[fork.index :]:
        if not all(worker.repeatable for worker in stage.workers.values()):
            return f"what stage {stage.name!r} does may not be done twice"
    return ""


def close_all(ledger: Ledger) -> None:
    """No more copies."""
    for mirror in list(ledger.mirrors.values()):
        _close(ledger, mirror)
    _tell_whether_wanted(ledger)


def _tell_whether_wanted(ledger: Ledger) -> None:
    if ledger.mirrors and ledger.comparer is None:
        ledger.actions.append(Comparing(wanted=True))
    elif not ledger.mirrors:
        ledger.actions.append(Comparing(wanted=False))


def _close(ledger: Ledger, mirror: Mirror) -> None:
    for pair in list(mirror.pairs.values()):
        _drop(ledger, mirror, pair, "shadow removed")
    mirror.fork.forked = None
    for stage in mirror.copies.stages:
        ledger.busy_stages.pop(stage, None)
    ledger.answering.pop(mirror.gateway.id, None)
    mirror.pipeline.mirror = None
    del ledger.mirrors[mirror.pipeline]


# ------------------------------------------------------------------ making and running them


def prepare(ledger: Ledger, now: float) -> None:
    """Copy what has come, and keep copies out of the dispatch of what is real."""
    for mirror in ledger.mirrors.values():
        if mirror.forked:
            for item in mirror.forked:
                _copy(ledger, mirror, item, now)
            mirror.forked.clear()
        for stage in mirror.copies.stages:
            ledger.busy_stages.pop(stage, None)


def _copy(ledger: Ledger, mirror: Mirror, item: Item, now: float) -> None:
    if (
        not item.version
        or item.version == mirror.version
        or item.stage is not mirror.fork
        or item.state not in _UNDER_WAY
        or item.seq in item.gateway.pairs
    ):
        return
    figures = mirror.pipeline.agreements.of(item.version, mirror.version)
    bounds = mirror.copies.config
    size = len(item.payload) + len(item.meta)
    if now < mirror.paused_until:
        figures.dropped["paused"] += 1
        return
    if len(mirror.pairs) >= bounds.max_items or mirror.bytes + size > bounds.max_bytes:
        figures.dropped["full"] += 1
        return
    mirror.seq += 1
    entry = SubmitItem(
        mirror.seq,
        mirror.pipeline.name,
        item.payload,
        item.meta,
        bounds.timeout_s + SPARE_S,
        item.client,
        Priority.LOW,
        mirror.version,
        key=ASKED,
    )
    ledger.admit(mirror.gateway, mirror.copies, entry, now)
    figures.copies += 1
    pair = Pair(item, mirror.gateway.items[mirror.seq])
    mirror.pairs[mirror.seq] = item.gateway.pairs[item.seq] = pair


def end_turn(ledger: Ledger, now: float) -> None:
    """Send copies to workers that have nothing else to do, and take what has been answered."""
    for mirror in ledger.mirrors.values():
        if now >= mirror.paused_until:
            for stage in reversed(mirror.copies.stages):
                if stage.queued:
                    _dispatch(ledger, stage.lane(mirror.version), now)
    if ledger.answering:
        _collect(ledger, now)


def _dispatch(ledger: Ledger, lane: Lane, now: float) -> None:
    for worker in list(lane.stage.idle):
        if not lane.queue.live:
            return
        if not lane.suits(worker) or _has_work(worker):
            continue
        if worker.leases and not lane.stage.versioned:
            continue
        items, _ = lane.queue.take(_most(lane, worker))
        if items:
            hand_out(ledger, lane, worker, items, now)


def _has_work(worker: Worker) -> bool:
    """Whether anything real waits for it."""
    return any(
        lane.waiting and lane.suits(worker)
        for stage in worker.stages
        for lane in stage.lanes.values()
    )


def _most(lane: Lane, worker: Worker) -> int:
    stage = lane.stage
    cap = stage.cap(worker)
    if stage.versioned:
        return cap
    estimate = stage.estimates.get(worker.version)
    if estimate is None or not estimate.known:
        return 1
    if estimate.c <= 0.0:
        return cap
    longest = (SHARED_STRETCH * estimate.predict(1) - estimate.a) / estimate.c
    return max(1, min(cap, int(longest)))


# ------------------------------------------------------------------ their answers


def _collect(ledger: Ledger, now: float) -> None:
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
        _drop(ledger, mirror, pair, "late" if late else "lost")
    else:
        _hold(ledger, mirror, pair, answer)


def _answered(ledger: Ledger, mirror: Mirror, pair: Pair, answer: Answer) -> None:
    pair.stable = answer
    outcome = answer.outcome
    if type(outcome) is Streamed:
        _drop(ledger, mirror, pair, "stream")
    elif type(outcome) is Failure and outcome.code != ErrorCode.REJECTED:
        _drop(ledger, mirror, pair, "no answer")
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
        _drop(ledger, mirror, pair, "large")
        return
    if mirror.bytes + size > mirror.copies.config.max_bytes:
        _drop(ledger, mirror, pair, "full")
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


def _drop(ledger: Ledger, mirror: Mirror, pair: Pair, reason: str) -> None:
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


def drop_stream(ledger: Ledger, copy: Item) -> None:
    """A copy is answered by a stream, which nobody would compare."""
    mirror = next(each for each in ledger.mirrors.values() if each.copies is copy.pipeline)
    _drop(ledger, mirror, mirror.pairs[copy.seq], "stream")


def sweep(ledger: Ledger, now: float) -> None:
    """Give up the copies of requests that nobody waits for any longer, or that stream, and those
    that have taken too long.
    """
    for mirror in ledger.mirrors.values():
        for pair in list(mirror.pairs.values()):
            copy = pair.copy
            if pair.stable is None and pair.item.state is ItemState.CANCELLED:
                _drop(ledger, mirror, pair, "cancelled")
            elif pair.stable is None and pair.item.state is ItemState.STREAMING:
                _drop(ledger, mirror, pair, "stream")
            elif pair.shadow is None and now >= copy.deadline - SPARE_S:
                _drop(ledger, mirror, pair, "late")
    if ledger.comparer is not None:
        _give_up_verdicts(ledger.comparer, now)


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


def _give_up_verdicts(comparer: Comparer, now: float) -> None:
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
            _tell_whether_wanted(ledger)
