"""What lies on the wire: framing, limits, deadlines of heads and bodies, connections that go on."""

import gzip
import resource
import socket
import threading
import time
import zlib

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure
from gateway import connection
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker, body_of
from tests.integration.gateway.harness import RunningGateway

POST = b"POST /pipelines/digits HTTP/1.1\r\nHost: t\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


# ------------------------------------------------------------------ lies


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(CHUNKED + b"4\r\nabcde\r\n0\r\n\r\n", id="chunk longer than it says"),
        pytest.param(CHUNKED + b"6\r\nabcde\r\n0\r\n\r\n", id="chunk shorter than it says"),
        pytest.param(CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n", id="chunk size is no number"),
        pytest.param(
            POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="both framings",
        ),
        pytest.param(POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", id="two lengths"),
        pytest.param(POST + b"Content-Length: +3\r\n\r\nabc", id="a signed length"),
        pytest.param(POST + b"Content-Length: -3\r\n\r\nabc", id="a negative length"),
        pytest.param(POST + b"Content-Length: 99999999999999999999\r\n\r\n", id="a huge length"),
        pytest.param(b"POST /pipelines/digits HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(POST + b"X-A: a\x00b\r\nContent-Length: 1\r\n\r\n1", id="NUL in a header"),
        pytest.param(POST + b"X A: b\r\n\r\n", id="a space in a name"),
        pytest.param(b"GET /livez HTTP/1.1\nHost: t\n\n", id="bare line feeds"),
        pytest.param(b"GET /livez HTTP/9.9\r\nHost: t\r\n\r\n", id="another version"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
        pytest.param(b"hello\r\n\r\n", id="no HTTP at all"),
        pytest.param(b"\x00\xff" * 50, id="garbage"),
    ],
)
def test_bad_framing_is_refused_and_the_connection_ends(
    broker: FakeBroker, gateway: RunningGateway, data: bytes
) -> None:
    with gateway.connect() as client:
        client.send(data)
        response = client.read_response()
        assert (response.status, response.code) == (400, "bad_request")
        assert response.headers["connection"] == "close"
        assert client.is_closed()
    assert not broker.items
    assert gateway.counted(400, "unknown") + gateway.counted(400) == 1
    assert gateway.post().status == 200


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: t\r\n\r\n", id="long target"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", id="long value"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"x" * 9000 + b": 1\r\n\r\n", id="long name"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 300 + b"\r\n", id="many headers"),
        pytest.param(b"GET / HTTP/1.1\r\nX-Request-Id: " + b"x" * (1 << 20), id="an id of 1 MiB"),
    ],
)
def test_heads_that_are_too_large(gateway: RunningGateway, data: bytes) -> None:
    with gateway.connect() as client:
        client.send(data)
        response = client.read_response()
        assert (response.status, response.code) == (431, "headers_too_large")
        assert client.is_closed()
    assert gateway.counted(431, "unknown") == 1


def test_a_stream_that_ends_within_its_body_is_a_hang_up(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    with gateway.connect() as client:
        client.send(POST + b"Content-Length: 10\r\n\r\nabc")
        client.socket.shutdown(1)
        assert client.is_closed()
    assert not broker.items
    assert gateway.counted(499) == 1


# ------------------------------------------------------------------ time


def test_a_body_that_stops_is_given_up(broker: FakeBroker, start_gateway: StartGateway) -> None:
    gateway = start_gateway(body_timeout_s=0.1).wait_until_ready()
    with gateway.connect() as client:
        client.send(POST + b"Content-Length: 10\r\n\r\nabc")
        response = client.read_response()
        assert (response.status, response.code) == (408, "body_timeout")
        assert response.headers["connection"] == "close"
        client.socket.shutdown(1)
        assert client.is_closed()
    assert gateway.counted(408) == 1


def test_a_body_that_drips_is_given_up_as_well(
    broker: FakeBroker, start_gateway: StartGateway
) -> None:
    gateway = start_gateway(body_timeout_s=0.2).wait_until_ready()
    with gateway.connect() as client:
        client.send(POST + b"Content-Length: 1000000\r\n\r\n")
        client.socket.settimeout(0.05)
        for _ in range(100):
            client.send(b"x")
            try:
                client.socket.recv(1, 2)  # MSG_PEEK: has it been answered?
            except TimeoutError:
                continue
            break
        client.socket.settimeout(5)
        assert client.read_response().status == 408


def test_the_deadline_runs_while_the_body_is_uploaded(gateway: RunningGateway) -> None:
    with gateway.connect() as client:
        client.send(POST + b"X-Timeout-Ms: 50\r\nContent-Length: 10\r\n\r\nabc")
        response = client.read_response()
        assert (response.status, response.code) == (504, "deadline_exceeded")


@pytest.mark.parametrize("begun", [b"GET /livez HTT", b"GET /livez HTTP/1.1\r\nHost: t\r\nX-"])
def test_a_head_that_stops_is_given_up(start_gateway: StartGateway, begun: bytes) -> None:
    gateway = start_gateway(header_timeout_s=0.1)
    with gateway.connect() as client:
        client.send(begun)
        response = client.read_response()
        assert (response.status, response.code) == (408, "body_timeout")
        client.socket.shutdown(1)
        assert client.is_closed()


def test_a_head_in_pieces_is_read(gateway: RunningGateway) -> None:
    with gateway.connect() as client:
        for byte in POST + b"Content-Length: 1\r\n\r\n5":
            client.send(bytes([byte]))
        assert client.read_response().body == b"5"


def test_idle_connections_end_without_a_word(start_gateway: StartGateway) -> None:
    gateway = start_gateway(keep_alive_s=0.1, header_timeout_s=0.1)
    with gateway.connect() as fresh, gateway.connect() as used:
        used.send_request("GET", "/livez")
        assert used.read_response().status == 200
        assert used.is_closed()
        assert fresh.is_closed()


# ------------------------------------------------------------------ connections


def test_pipelined_requests_are_answered_in_order(gateway: RunningGateway) -> None:
    with gateway.connect() as client:
        one = POST + b"Content-Length: 3\r\n\r\none"
        two = CHUNKED + b"2\r\ntw\r\n1\r\no\r\n0\r\n\r\n"
        client.send(one + two + b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n")
        assert client.read_response().body == b"one"
        assert client.read_response().body == b"two"
        assert client.read_response().json() == {"alive": True}


def test_a_head_that_comes_again(gateway: RunningGateway) -> None:
    head = POST + b"Content-Length: 3\r\n\r\n"
    with gateway.connect() as client, gateway.connect() as other:
        for body in (b"one", b"two"):
            client.send(head + body)
            assert client.read_response().body == body
        client.send(head + b"thr" + head + b"fou" + head)  # more than one, and a part of one
        assert client.read_response().body == b"thr"
        assert client.read_response().body == b"fou"
        client.send(b"fi")
        client.send(b"v")
        assert client.read_response().body == b"fiv"
        other.send(head + b"\r\n\r")
        assert other.read_response().body == b"\r\n\r"
        other.send(head[:-1])
        other.send(b"\nsix")
        assert other.read_response().body == b"six"
        other.send(head + b"sevnonsense\r\n\r\n")
        assert other.read_response().body == b"sev"
        assert other.read_response().code == "bad_request"
        assert other.is_closed()


def test_heads_that_come_again_are_other_requests(gateway: RunningGateway) -> None:
    gateway.wait_until_ready()
    head = b"POST /pipelines/nowhere HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\n"
    with gateway.connect() as client:
        ids = set()
        for _ in range(3):
            client.send(head + b"x")
            response = client.read_response()
            assert response.code == "unknown_pipeline"
            ids.add(response.headers["x-request-id"])
    assert len(ids) == 3


def test_what_is_good_is_answered_before_what_is_bad(gateway: RunningGateway) -> None:
    with gateway.connect() as client:
        client.send(POST + b"Content-Length: 3\r\n\r\none" + b"nonsense\r\n\r\n")
        assert client.read_response().body == b"one"
        assert client.read_response().code == "bad_request"
        assert client.is_closed()


def test_a_thousand_pipelined_requests(gateway: RunningGateway) -> None:
    with gateway.connect() as client:
        client.send(b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n" * 500)
        for number in range(500):
            client.send(POST + b"Content-Length: 3\r\n\r\n%03d" % number)
        for _ in range(500):
            assert client.read_response().status == 200
        for number in range(500):
            assert client.read_response().body == b"%03d" % number


def test_http_1_0(gateway: RunningGateway) -> None:
    request = b"POST /pipelines/digits HTTP/1.0\r\nContent-Length: 1\r\n"
    with gateway.connect() as client:
        client.send(request + b"Connection: keep-alive\r\n\r\n5")
        response = client.read_response()
        assert (response.body, response.headers["connection"]) == (b"5", "keep-alive")
        client.send(request + b"Expect: 100-continue\r\n\r\n6")
        response = client.read_response()
        assert (response.body, response.headers["connection"]) == (b"6", "close")
        assert client.is_closed()


def test_connection_close_is_heeded(gateway: RunningGateway) -> None:
    with gateway.connect() as client:
        client.send_request("GET", "/livez", headers={"Connection": "close"})
        assert client.read_response().headers["connection"] == "close"
        assert client.is_closed()


def test_a_client_that_ends_its_side_is_answered(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HALF_CLOSE_GRACE_S", 5.0)
    with gateway.connect() as client:
        client.send(POST + b"Content-Length: 1\r\n\r\n5" + POST + b"Content-Length: 1\r\n\r\n6")
        client.socket.shutdown(1)
        assert client.read_response().body == b"5"
        assert client.read_response().body == b"6"
        assert client.is_closed()


def test_an_upgrade_is_ignored(gateway: RunningGateway) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    with gateway.connect() as client:
        client.send_request("POST", "/pipelines/digits", b"5", upgrade)
        response = client.read_response()
        assert (response.body, response.headers["connection"]) == (b"5", "close")


def test_connect_is_no_proxy(gateway: RunningGateway) -> None:
    with gateway.connect() as client:
        client.send(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n")
        assert client.read_response().status == 405


def test_a_client_that_does_not_read_is_cut_off(
    broker: FakeBroker, start_gateway: StartGateway
) -> None:
    broker.respond = lambda _: b"x" * (32 << 20)
    gateway = start_gateway(body_timeout_s=0.2).wait_until_ready()
    with gateway.connect() as client:
        client.send_request("POST", "/pipelines/digits", b"1")
        broker.wait_for_items(1)
        gateway.wait_for(
            lambda: gateway.metrics()["millstream_gateway_connections"] == 1,  # the one that asks
            "it was kept",
        )


def test_a_client_that_reads_slowly_gets_it_all(
    broker: FakeBroker, start_gateway: StartGateway
) -> None:
    broker.respond = lambda _: b"x" * (16 << 20)
    gateway = start_gateway(body_timeout_s=0.8).wait_until_ready()
    with gateway.connect() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        client.send_request("POST", "/pipelines/digits", b"1")
        received = 0
        until = time.monotonic() + 1.0  # longer than the timeout
        while time.monotonic() < until:
            received += len(client.socket.recv(1 << 16))
            time.sleep(0.02)
        while received < 16 << 20:
            data = client.socket.recv(1 << 20)
            assert data
            received += len(data)


def test_much_that_is_pipelined_waits(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda item: None if body_of(item) == b"first" else b"y" * 20_000
    request = POST + b"Content-Length: 1\r\n\r\n1"
    count = 2 * connection.MAX_UNPARSED_BYTES // len(request)
    with gateway.connect() as client:
        client.socket.settimeout(30.0)  # sendall has it for all that it sends
        client.send(POST + b"Content-Length: 5\r\n\r\nfirst")
        (item,) = broker.wait_for_items(1)
        sender = threading.Thread(target=client.send, args=(request * count,))
        sender.start()
        broker.answer(item, b"done")
        assert client.read_response().body == b"done"
        for _ in range(count):
            assert len(client.read_response().body) == 20_000
        sender.join(5)


def test_answers_that_nobody_reads_hold_back_the_next_request(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    broker.respond = lambda _: b"y" * (4 << 20)
    with gateway.connect() as client:
        client.send((POST + b"Content-Length: 1\r\n\r\n1") * 50)
        gateway.wait_for(lambda: gateway.counted(200, version="v1"), "no answer")
        assert gateway.counted(200, version="v1") < 20
        for _ in range(50):
            assert len(client.read_response().body) == 4 << 20


# ------------------------------------------------------------------ Expect


def test_expect_continue(gateway: RunningGateway) -> None:
    with gateway.connect() as client:
        client.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert client.read_response().status == 100
        client.send(b"abc")
        assert client.read_response().body == b"abc"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Expect: 100-continue\r\nContent-Length: 999999999\r\n", 413),
        (b"Expect: other\r\nContent-Length: 3\r\n", 417),
        (b"Expect: 100-continue\r\nContent-Length: 3\r\nX-Priority: no\r\n", 400),
        (b"Expect: 100-continue\r\nContent-Length: 3\r\nContent-Encoding: br\r\n", 415),
    ],
)
def test_an_upload_that_would_be_in_vain_is_not_invited(
    gateway: RunningGateway, headers: bytes, status: int
) -> None:
    with gateway.connect() as client:
        client.send(POST + headers + b"\r\n")
        response = client.read_response()
        assert (response.status, response.headers["connection"]) == (status, "close")


# ------------------------------------------------------------------ sizes


@pytest.fixture
def small(broker: FakeBroker, start_gateway: StartGateway) -> RunningGateway:
    """A gateway for bodies of up to a MiB."""
    gateway = start_gateway(max_body_bytes=1 << 20).wait_until_ready()
    return gateway


def test_the_largest_body_passes(small: RunningGateway) -> None:
    assert small.post(b"x" * (1 << 20)).status == 200


def test_a_client_that_sends_all_of_a_large_body_first_sees_the_413(
    broker: FakeBroker, small: RunningGateway
) -> None:
    with small.connect() as client:
        client.send_request("POST", "/pipelines/digits", b"x" * (20 << 20))
        response = client.read_response()
        assert (response.status, response.code) == (413, "body_too_large")
        assert response.headers["connection"] == "close"
        assert client.is_closed()
    assert not broker.items
    assert small.counted(413) == 1
    assert small.post().status == 200


def test_a_chunked_body_is_cut_off_when_it_passes_the_limit(small: RunningGateway) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with small.connect() as client:
        client.send(CHUNKED + chunk * 16)
        client.send(b"1\r\nx\r\n0\r\n\r\n")
        assert client.read_response().code == "body_too_large"


def test_an_early_answer_says_that_the_connection_ends(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    with gateway.connect() as client:
        client.send_request("POST", "/pipelines/nope", b"x" * 400_000)
        response = client.read_response()
        assert response.status == 404
        if response.headers.get("connection") == "close":
            assert client.is_closed()
        else:
            client.send_request("GET", "/livez")
            assert client.read_response().status == 200


def test_a_refusal_of_the_broker_leaves_the_connection(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    broker.respond = lambda _: Failure(ErrorCode.QUEUE_FULL, "full", retry_after_s=0.1)
    with gateway.connect() as client:
        client.send_request("POST", "/pipelines/digits", b"x" * 400_000)
        response = client.read_response()
        assert (response.code, response.headers["retry-after"]) == ("queue_full", "1")
        client.send_request("GET", "/livez")
        assert client.read_response().status == 200


# ------------------------------------------------------------------ compression


def raw_deflate(data: bytes) -> bytes:
    """Deflate without the zlib header that it should have."""
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("identity", bytes),
    ],
)
@pytest.mark.parametrize("size_bytes", [0, 10, 300_000])
def test_compressed_bodies(
    broker: FakeBroker, gateway: RunningGateway, encoding: str, compress: object, size_bytes: int
) -> None:
    body = bytes(range(256)) * size_bytes
    body = body[:size_bytes]
    assert callable(compress)
    response = gateway.post(compress(body), {"Content-Encoding": encoding})
    assert response.status == 200
    assert body_of(broker.items[0]) == body


def test_a_compression_bomb_needs_no_memory(small: RunningGateway) -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(200)) + packer.flush()
    assert len(bomb) < 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    response = small.post(bomb, {"Content-Encoding": "gzip"})
    assert (response.status, response.code) == (413, "body_too_large")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


@pytest.mark.parametrize(
    "body",
    [
        b"no gzip at all, and some more of it" * 100,
        b"short",
        gzip.compress(bytes(range(256)) * 1000, mtime=0)[:-100],
        gzip.compress(b"x" * 2000, mtime=0) + b"rubbish",
        gzip.compress(b"", mtime=0) * 100,
    ],
)
def test_bodies_that_do_not_inflate(
    broker: FakeBroker, gateway: RunningGateway, body: bytes
) -> None:
    response = gateway.post(body, {"Content-Encoding": "gzip"})
    assert (response.status, response.code) == (400, "bad_body")
    assert not broker.items


def test_unknown_compression(gateway: RunningGateway) -> None:
    response = gateway.post(b"x", {"Content-Encoding": "br"})
    assert (response.status, response.code) == (415, "unsupported_type")
