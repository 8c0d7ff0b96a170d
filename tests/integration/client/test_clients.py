"""Both clients against a gateway that is scripted: what they send, read and send again."""

import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.payload.bodies import decode_body, encode_body
from millstream.client import BadAnswer, CallFailed, NoAnswer, TooLate
from tests.integration.client.clients import Asynchronous, Blocking
from tests.integration.client.scripted_server import (
    HANG_UP,
    PATIENCE_S,
    ScriptedServer,
    chunked,
    refusal,
    reply,
)

OBJECTS = "application/vnd.millstream.objects"
EVENTS = "text/event-stream"
Started = tuple[ScriptedServer, Any]
Start = Callable[..., Started]


@pytest.fixture(params=[Blocking, Asynchronous])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts a server with a script, and a client of it."""
    with ExitStack() as stack:

        def start(script: Sequence[bytes], *, path: str = "", **options: Any) -> Started:
            server = stack.enter_context(ScriptedServer(script, path=path))
            client = request.param(server.url, **options)
            stack.callback(client.close)
            return server, client

        yield start


def test_arrays_in_arrays_out(start: Start) -> None:
    array = np.arange(200_000, dtype=np.float32)
    body, kind = encode_body({"twice": array * 2}, OBJECTS)
    timing = "Server-Timing: a-run;dur=1.5"
    server, client = start([reply(bytes(body), "200 OK", kind, timing, "X-Model-Version: 7")])
    answer = client.ask("double", array, version="7", headers={"X-Priority": "high"})
    np.testing.assert_array_equal(answer.value["twice"], array * 2)
    assert (answer.version, answer.timing_ms) == ("7", {"a-run": 1.5})
    (seen,) = server.seen
    assert seen.line == "POST /pipelines/double/versions/7 HTTP/1.1"
    np.testing.assert_array_equal(decode_body(seen.body, seen.headers["content-type"]), array)
    assert seen.headers["accept"].startswith(OBJECTS)
    assert seen.headers["x-priority"] == "high"
    assert 29_000 < float(seen.headers["x-timeout-ms"]) <= 30_000


def test_a_connection_is_kept(start: Start) -> None:
    server, client = start([reply(), reply(b""), reply(b"[1]")])
    assert client.ask("p", 1).value == "done"
    with pytest.raises(BadAnswer):
        client.ask("p", 2)
    assert client.ask("p", 3).value == [1]
    assert [seen.connection for seen in server.seen] == [1, 1, 1]


def test_one_that_ends_with_its_answer_is_not(start: Start) -> None:
    closing = reply(b"1", "200 OK", "application/json", "Connection: close")
    server, client = start([closing, HANG_UP, reply(b"2")])
    assert [client.ask("p", n).value for n in range(2)] == [1, 2]
    assert [seen.connection for seen in server.seen] == [1, 2]


def test_sent_again_where_the_table_says_so(start: Start) -> None:
    server, client = start([refusal("worker_lost", "503 Service Unavailable"), reply()])
    assert client.ask("p", 1).value == "done"
    assert len(server.seen) == 2
    ids = {seen.headers["x-request-id"] for seen in server.seen}
    assert len(ids) == 1
    first, second = (float(seen.headers["x-timeout-ms"]) for seen in server.seen)
    assert second < first - 49  # half of the first pause, at the least


def test_sent_again_where_the_connection_ends_before_an_answer(start: Start) -> None:
    server, client = start([HANG_UP, HANG_UP, reply()])
    assert client.ask("p", 1).value == "done"
    assert len(server.seen) == 3


def test_retry_after_is_waited_for(start: Start) -> None:
    later = refusal("queue_full", "429 Too Many Requests", "Retry-After: 1")
    _, client = start([later, reply()])
    began = time.monotonic()
    assert client.ask("p", 1).value == "done"
    assert time.monotonic() - began >= 1.0


def test_not_where_it_would_come_too_late(start: Start) -> None:
    later = refusal("queue_full", "429 Too Many Requests", "Retry-After: 60")
    server, client = start([later, reply()])
    with pytest.raises(CallFailed, match="queue_full") as caught:
        client.ask("p", 1)
    assert caught.value.status == 429
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("code", "status"),
    [("worker_error", "500 Internal Server Error"), ("rejected", "422 Unprocessable Entity")],
)
def test_not_where_the_table_does_not(start: Start, code: str, status: str) -> None:
    server, client = start([refusal(code, status), reply()])
    with pytest.raises(CallFailed, match=f"{code}: so it is") as caught:
        client.ask("p", 1)
    assert caught.value.request_id == "r1"
    assert len(server.seen) == 1


def test_no_more_than_it_may(start: Start) -> None:
    server, client = start([HANG_UP] * 3, retries=2)
    with pytest.raises(NoAnswer):
        client.ask("p", 1)
    assert len(server.seen) == 3


def test_an_answer_that_breaks_off_is_none(start: Start) -> None:
    server, client = start([reply(b'"cut off"')[:-4], HANG_UP], retries=0)
    with pytest.raises(NoAnswer):
        client.ask("p", 1)
    assert len(server.seen) == 1


@pytest.mark.parametrize("kind", [Blocking, Asynchronous])
def test_nobody_there(kind: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    client = kind(f"http://127.0.0.1:{port}", retries=1)
    with pytest.raises(NoAnswer):
        client.ask("p", 1)
    client.close()


def test_the_deadline(start: Start) -> None:
    server, client = start([], timeout_s=0.5)
    with pytest.raises(TooLate, match=r"within 0\.5 s"):
        client.ask("p", 1)
    assert len(server.seen) == 1
    with pytest.raises(TooLate, match=r"within 0\.1 s"):
        client.ask("p", 1, timeout_s=0.1)


def test_what_cannot_be_sent_is_not(start: Start) -> None:
    server, client = start([])
    with pytest.raises(ValueError, match="cannot be sent"):
        client.ask("p", object())
    assert server.seen == []


def test_a_unix_socket(start: Start) -> None:
    folder = tempfile.mkdtemp(prefix="client-")
    try:
        _, client = start([reply()], path=str(Path(folder) / "gateway"))
        assert client.ask("p", b"x", content_type="image/png").value == "done"
    finally:
        shutil.rmtree(folder)


class TestStreams:
    def test_values_as_they_come(self, start: Start) -> None:
        server, client = start(
            [chunked(EVENTS, b": hello\n\n", b"data: 1\n\nda", b"ta: [2]\n\n", b"event: end\n\n")]
        )
        values: list[Any] = []
        client.stream("p", "x", into=values)
        assert values == [1, [2]]
        assert server.seen[0].headers["accept"].startswith(EVENTS)

    def test_lines(self, start: Start) -> None:
        _, client = start([chunked("application/x-ndjson", b"1\n2", b"\n")])
        values: list[Any] = []
        client.stream("p", "x", into=values)
        assert values == [1, 2]

    def test_an_answer_that_is_no_stream(self, start: Start) -> None:
        _, client = start([reply(b"[1,2]")])
        values: list[Any] = []
        client.stream("p", "x", into=values)
        assert values == [[1, 2]]

    @pytest.mark.parametrize(
        ("answer", "error", "match"),
        [
            (refusal("rejected", "422 Unprocessable Entity"), CallFailed, "422 rejected"),
            (reply(b"{", content_type="nonsense"), BadAnswer, "is no content type"),
        ],
    )
    def test_an_answer_that_is_an_error(
        self, start: Start, answer: bytes, error: type[Exception], match: str
    ) -> None:
        _, client = start([answer])
        with pytest.raises(error, match=match):
            client.stream("p", "x", into=[])

    def test_an_error_before_the_first_value_is_sent_again(self, start: Start) -> None:
        lost = refusal("worker_lost", "503 Service Unavailable")
        server, client = start([lost, chunked(EVENTS, b"data: 1\n\nevent: end\n\n")])
        values: list[Any] = []
        client.stream("p", "x", into=values)
        assert values == [1]
        assert len(server.seen) == 2

    def test_an_error_after_it_is_not(self, start: Start) -> None:
        error = b'event: error\ndata: {"error":{"code":"worker_lost","message":"gone"}}\n\n'
        server, client = start([chunked(EVENTS, b"data: 1\n\n" + error)])
        values: list[Any] = []
        with pytest.raises(CallFailed, match="worker_lost: gone"):
            client.stream("p", "x", into=values)
        assert values == [1]
        assert len(server.seen) == 1

    @pytest.mark.parametrize("whole", [True, False])
    def test_one_that_breaks_off(self, start: Start, whole: bool) -> None:
        _, client = start([chunked(EVENTS, b"data: 1\n\n", whole=whole), HANG_UP])
        values: list[Any] = []
        with pytest.raises(NoAnswer, match=r"broke off|payload"):
            client.stream("p", "x", into=values)
        assert values == [1]

    def test_a_value_that_does_not_come(self, start: Start) -> None:
        _, client = start([chunked(EVENTS, b"data: 1\n\n", whole=False)], timeout_s=0.3)
        values: list[Any] = []
        with pytest.raises(TooLate):
            client.stream("p", "x", into=values)
        assert values == [1]

    def test_one_that_is_left_ends_its_connection(self, start: Start) -> None:
        server, client = start([chunked(EVENTS, b"data: 1\n\ndata: 2\n\n", whole=False)])
        values: list[Any] = []
        client.stream("p", "x", into=values, most=1)
        assert values == [1]
        assert server.hung_up.wait(PATIENCE_S)
