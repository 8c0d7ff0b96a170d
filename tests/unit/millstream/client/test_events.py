"""Streams, in whatever pieces they come."""

import pytest

from millstream.client.errors import BadAnswer, NoAnswer
from millstream.client.events import Events, is_stream

EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"
ERROR = b'{"error":{"code":"worker_lost","message":"its worker died","request_id":"r"}}'


def test_types() -> None:
    assert is_stream(200, {"content-type": EVENTS})
    assert is_stream(200, {"content-type": LINES})
    assert not is_stream(503, {"content-type": EVENTS})
    for other in ("application/json", "", "nonsense"):
        assert not is_stream(200, {"content-type": other})
    assert not is_stream(200, {})


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_events_in_pieces_of_any_size(size: int, end: bytes) -> None:
    lines = [b": still here", b'data: {"a":1}', b"id: 3", b"", b'data:"b"', b"", b"data: [",
             b"data: 1]", b"", b"event: end", b"data: {}", b""]  # fmt: skip
    stream = end.join(lines) + end
    events = Events(EVENTS)
    values = []
    for start in range(0, len(stream), size):
        assert not events.ended
        values += events.feed(stream[start : start + size])
    assert values == [{"a": 1}, "b", [1]]
    assert events.ended
    events.finish()


def test_an_error_after_values() -> None:
    events = Events(EVENTS)
    assert events.feed(b"data: 1\n\nevent: error\ndata: " + ERROR + b"\n\n") == [1]
    assert events.failure is not None
    assert (events.failure.code, events.failure.request_id) == ("worker_lost", "r")
    assert events.failure.retryable


def test_a_stream_that_breaks_off() -> None:
    events = Events(EVENTS)
    assert events.feed(b"data: 1\n\ndata: 2\n") == [1]
    with pytest.raises(NoAnswer, match="broke off"):
        events.finish()


@pytest.mark.parametrize("data", [b"data: {\n\n", b"event: error\ndata: 1\n\n"])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(BadAnswer, match=r"cannot be read|is no JSON"):
        Events(EVENTS).feed(data)


def test_lines() -> None:
    events = Events(LINES)
    assert events.feed(b'1\n{"error":2}\n\n{"er') == [1, {"error": 2}]
    assert events.feed(b'ror":"x"}\n') == [{"error": "x"}]
    events.finish()
    assert events.feed(ERROR + b"\n") == []
    assert events.failure is not None
    assert events.failure.code == "worker_lost"


def test_a_line_that_breaks_off() -> None:
    events = Events(LINES)
    assert events.feed(b"1\n2") == [1]
    with pytest.raises(NoAnswer, match="within a value"):
        events.finish()
