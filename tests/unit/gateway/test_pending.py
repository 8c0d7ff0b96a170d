"""The pending table with numbers for time: what it sends, what it answers, when."""

import random
from collections import Counter
from typing import Any

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    NO_EPOCH,
    SILENCE_S,
    Answer,
    Answers,
    Beat,
    Cancel,
    Catalog,
    Failure,
    FromBroker,
    GatewayBeat,
    GatewayHello,
    PipelineInfo,
    Refused,
    StageInfo,
    Submit,
    SubmitItem,
    ToBroker,
    Unknown,
    Welcome,
    Who,
)
from broker.wire.trace import TraceContext
from broker.wire.wheel import SLOT_S
from gateway.pending import (
    ABSENT_S,
    HELLO_SELDOM_S,
    MAX_SUBMIT_ITEMS,
    PendingTable,
    Settled,
)
from gateway.tracing import Trace

Table = PendingTable[str]


def catalog(
    epoch: int, *, draining: bool = False, max_items: int = 4096, max_bytes: int = 1 << 30
) -> Catalog:
    """One pipeline, `p`."""
    pipeline = PipelineInfo("p", [StageInfo("s")], max_items=max_items, max_bytes=max_bytes)
    return Catalog(epoch, [pipeline], draining)


def welcomed(now: float = 0.0, *, max_items: int = 4096, max_bytes: int = 1 << 30) -> Table:
    """A table whose broker takes requests."""
    table = Table(now)
    table.receive(Welcome(7, 1), now)
    table.receive(catalog(7, max_items=max_items, max_bytes=max_bytes), now)
    table.outgoing(now)
    return table


def welcome(table: Table, now: float, epoch: int) -> None:
    """The two messages with which a broker receives a gateway."""
    assert table.receive(Welcome(epoch, 1), now) == []
    assert table.receive(catalog(epoch), now) == []


def add(
    table: Table, owner: str, now: float, *, due: float = 100.0, payload: bytes = b"1"
) -> Failure | None:
    """One request of pipeline `p`."""
    return table.add(SubmitItem(0, "p", payload, b"", 0.0), owner, due, now)


def submitted(messages: list[ToBroker]) -> list[SubmitItem]:
    """The items of all Submits."""
    return [item for message in messages if type(message) is Submit for item in message.items]


def owners(settled: list[Settled[str]]) -> dict[str, Any]:
    """What each owner got."""
    return {owner: answer.outcome for owner, answer, _ in settled}


def code(failure: Failure | None) -> int:
    """The code of a failure that must be there."""
    assert failure is not None
    return failure.code


# ------------------------------------------------------------------ hello


def test_it_says_hello_until_it_is_welcomed() -> None:
    table = Table(0.0, host="h", pid=5)
    assert [type(m) for m in table.outgoing(0.0)] == [GatewayHello]
    said = [now / 10 for now in range(1, 31) if not table.tick(now / 10) and table.outgoing(now)]
    assert said == [1.0, 2.0, 3.0]
    welcome(table, 3.1, 7)
    table.tick(3.6)
    assert [type(m) for m in table.outgoing(3.6)] == [GatewayBeat]


def test_after_a_long_absence_hellos_are_rare() -> None:
    table = Table(0.0)
    hellos = 0
    for half_seconds in range(2 * 600):
        table.tick(half_seconds / 2)
        hellos += len(table.outgoing(half_seconds / 2))
    assert 60 < hellos < 60 + 600 / HELLO_SELDOM_S + 5


def test_a_welcome_without_a_catalog_is_asked_for_again() -> None:
    table = Table(0.0)
    table.outgoing(0.0)
    table.receive(Welcome(7, 1), 0.0)
    add(table, "a", 0.0)
    assert not submitted(table.outgoing(0.0))
    table.receive(Beat(7), 0.9)
    table.tick(1.0)
    assert [type(m) for m in table.outgoing(1.0)] == [GatewayBeat, GatewayHello]


def test_a_refusal_is_kept_for_the_log() -> None:
    table = Table(0.0)
    table.receive(Refused(7, "too old"), 0.0)
    assert table.refusal == "too old"
    assert "too old" in table.trouble(0.0)
    welcome(table, 1.0, 7)
    assert table.refusal == ""
    assert table.trouble(1.0) == ""


# ------------------------------------------------------------------ the way of a request


def test_one_turn_is_one_submit() -> None:
    table = welcomed()
    for owner in "abc":
        assert add(table, owner, 1.0, due=3.0) is None
    (message,) = table.outgoing(1.5)
    assert type(message) is Submit
    assert message.epoch == 7
    assert [(i.seq, i.left_s, i.again) for i in message.items] == [
        (1, 1.5, False),
        (2, 1.5, False),
        (3, 1.5, False),
    ]
    assert table.outgoing(1.5) == []


def test_a_large_turn_is_several_submits() -> None:
    table = welcomed()
    for number in range(MAX_SUBMIT_ITEMS + 1):
        add(table, str(number), 0.0)
    assert [len(m.items) for m in table.outgoing(0.0) if type(m) is Submit] == [MAX_SUBMIT_ITEMS, 1]


def test_an_answer_is_given_once() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    answers = Answers(7, [Answer(1, b"x"), Answer(1, b"y"), Answer(99, b"z")])
    assert owners(table.receive(answers, 0.1)) == {"a": b"x"}
    assert table.receive(answers, 0.2) == []
    assert table.late_answers == 5
    assert len(table) == 0
    assert table.tick(200.0) == []


def test_an_answer_of_another_epoch_is_dropped() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    assert table.receive(Answers(6, [Answer(1, b"x")]), 1.0) == []
    assert table.stale_messages == 1
    assert [type(m) for m in table.outgoing(1.0)] == [GatewayHello]


def traced(table: Table, now: float) -> list[tuple[int, bytes]]:
    """What the broker is told now of traced requests."""
    messages = table.outgoing(now)
    return [each for message in messages if type(message) is Submit for each in message.traced]


def a_trace() -> Trace:
    return Trace(TraceContext("5" * 32, "7" * 16, True), None, "", "http", "c", 0.0)


def test_each_broker_is_told_which_requests_are_traced() -> None:
    table = welcomed()
    trace = a_trace()
    span = trace.context.key()
    add(table, "a", 0.0)
    assert traced(table, 0.1) == []
    add(table, "b", 0.2)
    table.trace(2, trace)
    add(table, "c", 0.2)
    assert traced(table, 0.3) == [(2, span)]
    assert table.take_traced() == [trace]
    assert (trace.seq, trace.submitted_s) == (2, 0.3)
    assert table.take_traced() == []
    table.receive(Unknown(7, [2, 3]), 0.4)
    assert traced(table, 0.5) == [(2, span)], "it was lost"
    welcome(table, 0.6, 8)
    assert traced(table, 0.7) == [(2, span)], "the broker is another one"
    draining = Failure(ErrorCode.DRAINING, "bye")
    table.receive(Answers(8, [Answer(seq, draining) for seq in (1, 2, 3)]), 0.8)
    welcome(table, 0.9, 9)
    assert traced(table, 1.0) == [(2, span)], "it was given back"
    assert table.take_traced() == [trace] * 3
    assert trace.submitted_s == 1.0
    table.receive(Answers(9, [Answer(2, b"x")]), 1.1)
    welcome(table, 1.2, 10)
    assert traced(table, 1.3) == [], "it has left"


def test_a_traced_request_that_is_held_is_told_of_when_it_is_submitted() -> None:
    table = welcomed()
    table.receive(catalog(7, draining=True), 0.1)
    trace = a_trace()
    add(table, "a", 0.2)
    table.trace(1, trace)
    assert traced(table, 0.3) == []
    assert table.take_traced() == []
    welcome(table, 0.4, 8)
    assert traced(table, 0.5) == [(1, trace.context.key())]
    assert (trace.seq, trace.submitted_s) == (1, 0.5)


def test_one_that_is_cancelled_before_it_is_submitted_is_not() -> None:
    table = welcomed()
    trace = a_trace()
    add(table, "a", 0.0)
    table.trace(1, trace)
    table.cancel(1)
    add(table, "b", 0.0)
    assert traced(table, 0.1) == []
    assert table.take_traced() == []


def test_cancel_before_and_after_the_submit() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    add(table, "b", 0.0)
    table.cancel(1)
    assert [item.seq for item in submitted(table.outgoing(0.0))] == [2]
    table.cancel(2)
    table.cancel(2)
    table.cancel(99)
    assert table.outgoing(0.0) == [Cancel(7, [2])]
    assert table.bounds.of("p").items == 0


def test_the_deadline_is_answered_once_submitted() -> None:
    table = welcomed()
    add(table, "a", 0.0, due=2.0)
    table.outgoing(0.0)
    assert table.tick(1.99) == []
    settled = table.tick(2.0 + SLOT_S)
    assert code(owners(settled)["a"]) == ErrorCode.DEADLINE_EXCEEDED
    assert Cancel(7, [1]) in table.outgoing(2.1)


def test_the_deadline_of_what_nobody_took() -> None:
    table = Table(0.0)
    add(table, "a", 0.0, due=2.0)
    settled = table.tick(2.0 + SLOT_S)
    assert code(owners(settled)["a"]) == ErrorCode.NOT_READY
    assert not [m for m in table.outgoing(2.1) if type(m) is Cancel]


def test_next_due_is_a_beat_or_a_deadline() -> None:
    table = welcomed()
    assert table.next_due() == 0.5
    add(table, "a", 0.0, due=0.1)
    assert 0.1 <= table.next_due() <= 0.1 + SLOT_S


# ------------------------------------------------------------------ beats


def test_beats_name_what_has_waited_for_a_second() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    table.tick(0.5)
    assert table.outgoing(0.5) == [GatewayBeat(7, [])]
    table.receive(Beat(7), 1.0)
    table.tick(1.5)
    assert table.outgoing(1.5) == [GatewayBeat(7, [1])]


def test_what_the_broker_does_not_know_is_submitted_again() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    table.receive(Unknown(7, [1, 99]), 2.0)
    (item,) = submitted(table.outgoing(2.0))
    assert (item.seq, item.again, item.left_s) == (1, True, 98.0)


# ------------------------------------------------------------------ lives of the broker


def test_a_new_epoch_gets_everything() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    table.receive(Who(8), 5.0)
    assert not table.up
    add(table, "b", 5.0)
    assert [type(m) for m in table.outgoing(5.0)] == [GatewayHello]
    table.receive(Who(8), 5.1)  # of the same stale messages
    assert table.outgoing(5.1) == []
    welcome(table, 5.2, 8)
    again = {item.seq: item.again for item in submitted(table.outgoing(5.2))}
    assert again == {1: True, 2: False}


def test_the_same_epoch_gets_what_was_held() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    silent = SILENCE_S + 0.5
    table.tick(silent)
    assert not table.up
    assert table.trouble(silent) == "no broker answers"
    add(table, "b", silent)
    assert [type(m) for m in table.outgoing(silent)] == [GatewayHello]
    table.receive(Beat(7), silent + 1)
    assert [item.seq for item in submitted(table.outgoing(silent + 1))] == [2]


def test_who_of_the_same_epoch_means_that_all_is_lost() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    table.receive(Who(7), 1.0)
    table.cancel(1)
    add(table, "b", 1.0)
    welcome(table, 1.1, 7)
    assert [item.seq for item in submitted(table.outgoing(1.1))] == [2]


def test_a_draining_broker_gets_nothing_new() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    table.receive(catalog(7, draining=True), 1.0)
    add(table, "b", 1.0)
    assert table.outgoing(1.0) == []
    assert table.trouble(1.0) == "the broker is shutting down"
    assert owners(table.receive(Answers(7, [Answer(1, b"x")]), 1.1)) == {"a": b"x"}
    welcome(table, 2.0, 8)
    assert [(i.seq, i.again) for i in submitted(table.outgoing(2.0))] == [(2, False)]


def test_an_answer_that_says_draining_is_none() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    assert table.receive(Answers(7, [Answer(1, Failure(ErrorCode.DRAINING, ""))]), 1.0) == []
    assert not table.up
    table.receive(Beat(7), 1.1)
    assert table.outgoing(1.1) == []
    welcome(table, 2.0, 8)
    assert [(i.seq, i.again) for i in submitted(table.outgoing(2.0))] == [(1, False)]


def test_after_a_while_without_a_broker_new_requests_are_refused() -> None:
    table = Table(0.0)
    assert add(table, "a", ABSENT_S) is None
    refused = add(table, "b", ABSENT_S + 0.1)
    assert refused is not None
    assert (refused.code, refused.message) == (ErrorCode.NOT_READY, "no broker answers")
    assert refused.retry_after_s > 0
    welcome(table, 20.0, 7)
    assert [item.seq for item in submitted(table.outgoing(20.0))] == [1]
    assert add(table, "c", 20.0) is None


def test_what_came_before_any_catalog_finds_its_home() -> None:
    table = Table(0.0)
    add(table, "a", 0.0)
    table.outgoing(0.0)
    welcome(table, 1.0, 7)
    ((owner, item),) = table.take_homeless()
    assert (owner, item.seq, len(table)) == ("a", 1, 0)
    assert table.add(item, owner, 50.0, 1.0) is None
    assert [i.seq for i in submitted(table.outgoing(1.0))] == [2]


# ------------------------------------------------------------------ bounds


def test_bytes_are_bounded() -> None:
    table = welcomed(max_bytes=100)
    assert add(table, "a", 0.0, payload=b"x" * 200) is None, "a lone one always may"
    assert code(add(table, "b", 0.0)) == ErrorCode.QUEUE_FULL
    table.cancel(1)
    assert add(table, "c", 0.0, payload=b"x" * 100) is None
    assert code(add(table, "d", 0.0)) == ErrorCode.QUEUE_FULL
    table.receive(catalog(7, max_bytes=101), 1.0)
    assert add(table, "d", 1.0) is None


def test_what_stages_hold_leaves_less_for_bodies() -> None:
    table = welcomed(max_bytes=100)
    assert add(table, "a", 0.0, payload=b"x" * 20) is None
    table.receive(Answers(7, [], grown={"p": 70, "another": 1000}), 0.0)
    assert code(add(table, "b", 0.0, payload=b"x" * 20)) == ErrorCode.QUEUE_FULL
    assert add(table, "c", 0.0, payload=b"x" * 10) is None
    table.receive(Answers(7, []), 0.0)
    assert add(table, "d", 0.0, payload=b"x" * 70) is None


@pytest.mark.parametrize(("max_items", "slack"), [(2, 64), (1000, 250)])
def test_a_broker_that_takes_requests_sees_some_beyond_the_bound(
    max_items: int, slack: int
) -> None:
    table = welcomed(max_items=max_items)
    for number in range(max_items + slack):
        assert add(table, str(number), 0.0) is None
    assert code(add(table, "one more", 0.0)) == ErrorCode.QUEUE_FULL
    assert len(submitted(table.outgoing(0.0))) == max_items + slack
    for seq in range(1, slack + 1):  # it turns some away, whichever it likes
        table.receive(Answers(7, [Answer(seq, Failure(ErrorCode.QUEUE_FULL, ""))]), 0.0)
    assert add(table, "one more", 0.0) is None


@pytest.mark.parametrize("end", [Who(8), catalog(7, draining=True, max_items=2)])
def test_what_is_held_for_a_broker_is_bounded_exactly(end: FromBroker) -> None:
    table = welcomed(max_items=2)
    for owner in "abc":
        add(table, owner, 0.0)
    table.outgoing(0.0)
    table.receive(end, 0.0)
    assert not table.up
    assert code(add(table, "d", 0.0)) == ErrorCode.QUEUE_FULL
    table.cancel(1)
    table.cancel(2)
    assert add(table, "d", 0.0) is None
    assert code(add(table, "e", 0.0)) == ErrorCode.QUEUE_FULL
    welcome(table, 1.0, 8)
    assert [(i.seq, i.again) for i in submitted(table.outgoing(1.0))] == [(3, True), (4, False)]


def test_unknown_names_share_one_bound() -> None:
    table = Table(0.0)
    for number in range(4096):
        item = SubmitItem(0, f"name-{number}", b"", b"", 0.0)
        assert table.add(item, "", 100.0, 0.0) is None
    item = SubmitItem(0, "one-more", b"", b"", 0.0)
    assert code(table.add(item, "", 100.0, 0.0)) == ErrorCode.QUEUE_FULL


# ------------------------------------------------------------------ leaving


def test_draining_with_a_broker_waits_for_it() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    assert table.drain() == []
    assert add(table, "b", 0.0) is None, "its head had been read"
    assert len(submitted(table.outgoing(0.0))) == 2
    assert owners(table.receive(Answers(7, [Answer(1, b"x")]), 1.0)) == {"a": b"x"}
    left = owners(table.abandon())
    assert code(left["b"]) == ErrorCode.DRAINING
    assert table.outgoing(1.0) == [Cancel(7, [2])]
    assert table.farewell().epoch == 7


def test_draining_without_a_broker_holds_nothing() -> None:
    table = Table(0.0)
    add(table, "a", 0.0)
    assert code(owners(table.drain())["a"]) == ErrorCode.DRAINING
    assert code(add(table, "b", 0.0)) == ErrorCode.DRAINING


@pytest.mark.parametrize(
    "message", [catalog(7, draining=True), Answers(7, [Answer(2, Failure(ErrorCode.DRAINING, ""))])]
)
def test_draining_while_the_broker_does_too(message: FromBroker) -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    add(table, "b", 0.0)
    table.drain()
    if type(message) is Answers:
        table.outgoing(0.0)
    settled = owners(table.receive(message, 1.0))
    assert list(settled) == ["b"]
    assert code(settled["b"]) == ErrorCode.DRAINING
    assert owners(table.receive(Answers(7, [Answer(1, b"x")]), 1.1)) == {"a": b"x"}


def test_draining_while_the_broker_falls_silent() -> None:
    table = welcomed()
    add(table, "a", 0.0)
    table.outgoing(0.0)
    table.drain()
    table.receive(Who(8), 1.0)
    settled = table.tick(1.5)
    assert settled == [], "it is out, and may be answered yet"
    assert code(owners(table.abandon())["a"]) == ErrorCode.DRAINING


# ------------------------------------------------------------------ a net that loses


class ForgetfulBroker:
    """The broker's side, reduced to its promises, with lives that end and a net that loses."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.epoch = 1
        self.known = False
        self.items: dict[int, float] = {}  # seq -> when it will be answered
        self.down_until = 0.0

    def restart(self, now: float) -> None:
        self.epoch += 1
        self.known = False
        self.items.clear()
        self.down_until = now + self.rng.uniform(0.0, 4.0)

    def receive(self, message: ToBroker, now: float) -> list[FromBroker]:
        if type(message) is GatewayHello:
            self.known = True
            return [Welcome(self.epoch, 1), catalog(self.epoch)]
        if not self.known or message.epoch != self.epoch:  # type: ignore[union-attr]
            return [Who(self.epoch)]
        if type(message) is Submit:
            for item in message.items:
                self.items.setdefault(item.seq, now + self.rng.expovariate(3.0))
        elif type(message) is Cancel:
            for seq in message.seqs:
                self.items.pop(seq, None)
        elif type(message) is GatewayBeat:
            unknown = [seq for seq in message.waiting if seq not in self.items]
            return [Unknown(self.epoch, unknown)] if unknown else []
        return []

    def answers(self, now: float) -> list[FromBroker]:
        ready = [seq for seq, when in self.items.items() if when <= now]
        for seq in ready:
            del self.items[seq]
        out: list[FromBroker] = [Answers(self.epoch, [Answer(s, b"ok") for s in ready])]
        return (out if ready else []) + ([Beat(self.epoch)] if self.known else [])


class Net:
    """A table and a broker with a net between them, and the clients' books."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loss = self.rng.choice([0.0, 0.02, 0.2])
        self.table, self.broker = Table(0.0), ForgetfulBroker(self.rng)
        self.now = 0.0
        self.due: dict[str, float] = {}
        self.answered: Counter[str] = Counter()
        self.results = 0

    def step(self) -> None:
        """All that happens within 50 ms."""
        self.now += 0.05
        self.settle(self.table.tick(self.now))
        replies: list[FromBroker] = []
        up = self.now >= self.broker.down_until
        for message in self.table.outgoing(self.now):
            if up and not self.is_lost():
                replies += self.broker.receive(message, self.now)
        for reply in replies + (self.broker.answers(self.now) if up else []):
            if not self.is_lost():
                self.settle(self.table.receive(reply, self.now))

    def arrive(self) -> None:
        """Some requests come in, and now and then the broker starts anew."""
        for _ in range(self.rng.randrange(4)):
            owner, due = str(len(self.due)), self.now + self.rng.choice([0.2, 2.0, 10.0])
            if add(self.table, owner, self.now, due=due) is None:
                self.due[owner] = due
        if self.rng.random() < 0.002:
            self.broker.restart(self.now)

    def is_lost(self) -> bool:
        return self.rng.random() < self.loss

    def settle(self, settled: list[Settled[str]]) -> None:
        for owner, answer, _ in settled:
            self.answered[owner] += 1
            self.results += answer.outcome == b"ok"
            assert self.now <= self.due[owner] + SLOT_S + 0.05


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_lost_each_request_has_one_answer_in_time(seed: int) -> None:
    net = Net(seed)
    while net.now < 60.0:
        net.arrive()
        net.step()
    while len(net.table):
        net.step()
    assert set(net.answered) == set(net.due)
    assert set(net.answered.values()) == {1}
    assert net.results > 0.5 * len(net.due)
    assert net.table.bounds.of("p").items == net.table.bounds.of("p").held_bytes == 0
    assert net.table.epoch != NO_EPOCH
