"""Streams at the gateway: what its table makes of values, and how they are framed for a client."""

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.frames import blob
from broker.wire.messages import (
    SILENCE_S,
    Answer,
    Answers,
    Beat,
    Cancel,
    Credit,
    Failure,
    Streamed,
    Unknown,
    Value,
    Values,
    Welcome,
    Who,
)
from broker.wire.window import WINDOW_BYTES, WINDOW_VALUES
from gateway.pending import PendingTable
from gateway.streams import KEEP_ALIVE_S, Events, wants_ndjson
from tests.unit.gateway.test_pending import add, code, owners, submitted, welcome, welcomed

Table = PendingTable[str]


def begun(*, values: int = 1) -> Table:
    """A table whose one request, of `a`, has been answered with so many values."""
    table = welcomed()
    add(table, "a", 0.0, due=10.0)
    table.outgoing(0.0)
    say(table, *range(1, values + 1))
    table.take_streamed()
    return table


def say(table: Table, *numbers: int, now: float = 1.0, seq: int = 1) -> list[str]:
    """Values come; returns the owners of those that were ended for it."""
    values = [Value(seq, number, b"%d" % number) for number in numbers]
    return list(owners(table.receive(Values(7, values), now)))


def streamed(table: Table) -> list[tuple[str, int]]:
    return [(owner, value.number) for owner, value in table.take_streamed()]


class TestTable:
    def test_values_in_order_each_once_and_then_the_end(self) -> None:
        table = begun(values=0)
        assert say(table, 1, 2) == []
        assert say(table, 2, 3) == []
        assert streamed(table) == [("a", 1), ("a", 2), ("a", 3)]
        settled = table.receive(Answers(7, [Answer(1, Streamed(3))]), 1.0)
        assert owners(settled) == {"a": Streamed(3)}
        assert len(table) == 0

    def test_once_begun_the_deadline_is_the_brokers_affair(self) -> None:
        table = begun()
        for half_seconds in range(60):
            now = half_seconds / 2
            table.receive(Beat(7), now)
            assert table.tick(now) == []
        assert len(table) == 1

    def test_a_value_that_is_missing_ends_it(self) -> None:
        table = begun()
        assert say(table, 3) == ["a"]
        assert [type(message) for message in table.outgoing(1.0)] == [Cancel]

    def test_an_end_that_counts_more_values(self) -> None:
        ((_, answer, _),) = begun().receive(Answers(7, [Answer(1, Streamed(2))]), 1.0)
        assert code(answer.outcome) == ErrorCode.WORKER_LOST  # type: ignore[arg-type]

    def test_a_value_that_nobody_waits_for_is_stopped(self) -> None:
        table = begun()
        table.cancel(1)
        table.outgoing(1.0)
        assert say(table, 2) == []
        assert streamed(table) == []
        assert table.outgoing(1.0) == [Cancel(7, [1])]

    @pytest.mark.parametrize("loss", ["new broker", "unknown", "forgotten", "silence"])
    def test_it_is_never_submitted_again(self, loss: str) -> None:
        table = begun()
        if loss == "new broker":
            settled = table.receive(Welcome(8, 1), 2.0)
        elif loss == "unknown":
            settled = table.receive(Unknown(7, [1]), 2.0)
        elif loss == "forgotten":
            assert table.receive(Who(7), 2.0) == []
            settled = table.receive(Welcome(7, 1), 2.0)
        else:
            table.tick(1.5)
            settled = table.tick(1.0 + SILENCE_S + 0.5)
        assert code(owners(settled)["a"]) == ErrorCode.WORKER_LOST
        welcome(table, 5.0, 9)
        assert not submitted(table.outgoing(5.0))

    def test_without_a_value_it_is(self) -> None:
        table = begun(values=0)
        welcome(table, 2.0, 8)
        assert [item.again for item in submitted(table.outgoing(2.0))] == [True]

    def test_a_broker_that_drains_ends_it(self) -> None:
        table = begun()
        failure = Failure(ErrorCode.DRAINING, "")
        assert owners(table.receive(Answers(7, [Answer(1, failure)]), 1.0)) == {"a": failure}

    def test_what_clients_have_taken_is_said_together_and_again_with_each_beat(self) -> None:
        table = begun()
        add(table, "b", 0.0)
        table.outgoing(0.0)
        say(table, 1, seq=2)
        for seq, values in ((1, 3), (2, 1), (1, 5), (99, 1)):
            table.credit(seq, values)
        assert table.has_outgoing
        assert table.outgoing(1.0) == [Credit(7, [(1, 5), (2, 1)])]
        assert table.outgoing(1.0) == []
        table.tick(1.5)
        assert table.outgoing(1.5)[1:] == [Credit(7, [(1, 5), (2, 1)])]


class Client:
    """What a connection was given, and whether it takes more."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.credits: list[int] = []
        self.is_write_paused = False

    def part(self, data: bytes) -> None:
        self.parts.append(data)


class TestEvents:
    def events(self, client: Client, *, is_ndjson: bool = False) -> Events:
        return Events(client, client.credits.append, is_ndjson=is_ndjson, now=0.0)

    def test_as_server_sent_events(self) -> None:
        client = Client()
        events = self.events(client)
        events.value(b"1", 0.0)
        events.value(blob(b"", [b'"two"']), 0.0)
        events.end(2)
        events.error(b'{"error":{}}')
        assert client.parts == [
            b"data: 1\n\n",
            b'data: "two"\n\n',
            b'event: end\ndata: {"values": 2}\n\n',
            b'event: error\ndata: {"error":{}}\n\n',
        ]

    def test_as_lines(self) -> None:
        client = Client()
        events = self.events(client, is_ndjson=True)
        events.value(b"1", 0.0)
        events.tick(100.0)
        events.end(1)
        events.error(b'{"error":{}}')
        assert client.parts == [b"1\n", b'{"error":{}}\n']

    def test_a_word_while_nothing_comes(self) -> None:
        client = Client()
        events = self.events(client)
        events.tick(KEEP_ALIVE_S - 0.1)
        assert client.parts == []
        events.tick(KEEP_ALIVE_S)
        events.tick(KEEP_ALIVE_S + 1.0)
        assert client.parts == [b": keep-alive\n\n"]
        client.is_write_paused = True
        events.tick(3 * KEEP_ALIVE_S)
        assert len(client.parts) == 1

    def test_credit_for_half_a_window_that_was_read(self) -> None:
        client = Client()
        events = self.events(client)
        for _ in range(WINDOW_VALUES):
            events.value(b"1", 0.0)
        assert client.credits == [WINDOW_VALUES // 2, WINDOW_VALUES]
        client.is_write_paused = True
        events.value(b"x" * WINDOW_BYTES, 0.0)
        events.value(b"1", 0.0)
        assert len(client.credits) == 2
        client.is_write_paused = False
        events.drained()
        assert client.credits[2:] == [WINDOW_VALUES + 2]
        events.drained()
        assert len(client.credits) == 3


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/event-stream", False),
        ("application/json", False),
        ("application/x-ndjson", True),
        ("Application/JSONL; q=0.5, */*", True),
        ("application/ndjson, text/event-stream", True),
        ("text/event-stream, application/x-ndjson", False),
    ],
)
def test_who_gets_lines(accept: str, *, wanted: bool) -> None:
    assert wants_ndjson(accept) is wanted
