"""What a head says, and which heads are known again; bytes are read by the gateway's own parser."""

import asyncio
from typing import Any

import pytest
from aiohttp.http import HttpRequestParser

from broker.wire.errors import ErrorCode
from gateway.head import MAX_KNOWN, MAX_KNOWN_BYTES, Head, KnownHeads
from gateway.headers import client_number

POST = b"POST /pipelines/digits HTTP/1.1\r\nHost: t\r\n"


class Reader:
    """Stands where a connection does."""

    def pause_reading(self) -> None:
        """Never needed."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Likewise."""


def read(data: bytes) -> Head:
    loop = asyncio.new_event_loop()
    try:
        reader: Any = Reader()
        parser = HttpRequestParser(reader, loop, 1 << 16)
        return Head(parser.feed_data(data)[0][0][0])
    finally:
        loop.close()


def test_what_it_says() -> None:
    head = read(
        POST + b"content-LENGTH: 3\r\nX-Timeout-Ms: 1500\r\nX-Priority: high\r\nX-Api-Key: me\r\n"
        b"Content-Type: text/plain\r\nAccept: \xff\r\nContent-Encoding: GZIP\r\n\r\nabc"
    )
    assert (head.target, head.size_bytes, head.asked_s, head.priority) == (
        "/pipelines/digits", 3, 1.5, 0,
    )  # fmt: skip
    assert (head.client, head.content_type) == (client_number("me"), "text/plain")
    assert (head.accept, head.encoding) == ("\N{REPLACEMENT CHARACTER}", "gzip")
    assert (head.bad, head.unmet, head.expects_continue) == ("", None, False)


def test_what_it_does_not_say() -> None:
    head = read(POST + b"\r\n")
    assert (head.size_bytes, head.asked_s, head.priority, head.client) == (0, 0.0, 1, None)
    assert (head.content_type, head.accept, head.traceparent, head.request_id) == ("", "", "", "")
    assert (head.is_plain, head.is_unique) == (True, False)


def test_the_first_of_two_counts() -> None:
    head = read(POST + b"X-Priority: low\r\nx-priority: high\r\n\r\n")
    assert head.priority == 2


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"Expect: a pony", ErrorCode.EXPECTATION_FAILED),
        (b"Content-Encoding: br", ErrorCode.UNSUPPORTED_TYPE),
        (b"Content-Encoding: br\r\nExpect: a pony", ErrorCode.EXPECTATION_FAILED),
    ],
)
def test_what_cannot_be(line: bytes, code: ErrorCode) -> None:
    head = read(POST + line + b"\r\n\r\n")
    assert head.unmet is not None
    assert head.unmet[0] == code


@pytest.mark.parametrize("line", [b"X-Timeout-Ms: soon", b"X-Priority: mine"])
def test_values_that_cannot_be(line: bytes) -> None:
    assert read(POST + line + b"\r\n\r\n").bad


@pytest.mark.parametrize(
    ("data", "is_plain", "target"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n", True, None),
        (b"HEAD /livez HTTP/1.1\r\nHost: t\r\n\r\n", False, None),
        (b"POST /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False, "/a"),
        (POST + b"Connection: close\r\n\r\n", False, "/pipelines/digits"),
        (POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", False, "/pipelines/digits"),
    ],
)
def test_whose_answers_are_plain(data: bytes, is_plain: bool, target: str | None) -> None:
    head = read(data)
    assert (head.is_plain, head.target) == (is_plain, target)


# ------------------------------------------------------------------ known again


def kept(data: bytes, body: bytes) -> tuple[KnownHeads, bool]:
    known = KnownHeads()
    return known, known.keep(data, read(data), body)


def test_a_head_is_known_by_its_bytes() -> None:
    head = POST + b"Content-Length: 3\r\n\r\n"
    known, is_whole = kept(head + b"abc", b"abc")
    assert is_whole
    assert known.get(head) is not None
    assert known.get(POST + b"Content-Length: 4\r\n\r\n") is None


@pytest.mark.parametrize(
    ("data", "body"),
    [
        pytest.param(POST + b"Content-Length: 3\r\n\r\nabcGET /", b"abc", id="more behind it"),
        pytest.param(
            b"\r\n\r\n" + POST + b"Content-Length: 3\r\n\r\nabc", b"abc", id="more before"
        ),
        pytest.param(
            POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"abc", id="chunks"
        ),
        pytest.param(
            POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"", id="chunks of nothing"
        ),
    ],
)
def test_only_what_came_by_itself_is_known(data: bytes, body: bytes) -> None:
    known, is_whole = kept(data, body)
    assert not is_whole
    assert known.get(data[: data.find(b"\r\n\r\n") + 4]) is None


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"X-Request-Id: 1", id="an id"),
        pytest.param(b"traceparent: 00-1-1-00", id="a trace"),
        pytest.param(b"Connection: close", id="an end"),
        pytest.param(b"X-Long: " + b"x" * MAX_KNOWN_BYTES, id="much"),
    ],
)
def test_what_will_not_come_again_is_not_kept(line: bytes) -> None:
    data = POST + line + b"\r\n\r\n"
    known, is_whole = kept(data, b"")
    assert is_whole
    assert known.get(data) is None


def test_no_more_are_kept_than_may_be() -> None:
    known = KnownHeads()
    for number in range(MAX_KNOWN + 1):
        data = POST + b"X-Number: %d\r\n\r\n" % number
        known.keep(data, read(data), b"")
    assert known.get(POST + b"X-Number: 0\r\n\r\n") is None
    assert known.get(data) is not None
