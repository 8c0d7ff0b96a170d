"""Reading answers: complete ones in any pieces, of any framing, and what is none."""

import pytest

from millstream.bench.answers import KEPT_BYTES, Answer, Reader

WHOLE = b"HTTP/1.1 503 Service Unavailable\r\nCONTENT-LENGTH: 4\r\nRetry-After: 1\r\n\r\nbusy"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4;x=y\r\nabcd\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: 1\r\n\r\n"
)
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nsome text"


def read(*pieces: bytes, without_body: bool = False) -> list[Answer]:
    reader = Reader(without_body=without_body)
    return [answer for piece in pieces if (answer := reader.feed(piece)) is not None]


@pytest.mark.parametrize("whole", [WHOLE, CHUNKED])
def test_an_answer_is_complete_with_its_last_byte(whole: bytes) -> None:
    (answer,) = read(whole)
    for cut in range(1, len(whole)):
        assert read(whole[:cut]) == []
        assert read(whole[:cut], whole[cut:]) == [answer]
    assert read(*(whole[at : at + 1] for at in range(len(whole)))) == [answer]


def test_several_come_one_after_another() -> None:
    reader = Reader()
    for whole, status in ((WHOLE, 503), (CHUNKED, 200), (CHUNKED, 200), (WHOLE, 503)):
        answer = reader.feed(whole)
        assert answer is not None
        assert answer.status == status


def test_the_begin_of_an_errors_body_is_kept_and_of_no_other() -> None:
    (answer,) = read(WHOLE)
    assert answer == Answer(503, closes=False, body=b"busy")
    (answer,) = read(WHOLE[:-2], WHOLE[-2:])
    assert answer.body == b"busy"
    (answer,) = read(CHUNKED.replace(b"200", b"500"))
    assert answer.body == b"abcd0123456789abcdef"
    (answer,) = read(CHUNKED)
    assert answer.body == b""
    long = b"HTTP/1.1 500 No\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000
    (answer,) = read(long[:1000], long[1000:])
    assert answer.body == b"x" * KEPT_BYTES


def test_a_server_may_close_after_it() -> None:
    closing = WHOLE.replace(b"Retry-After: 1", b"Connection: Close")
    (answer,) = read(closing)
    assert answer.closes


def test_the_end_of_the_connection_may_be_the_end_of_the_answer() -> None:
    reader = Reader()
    assert reader.feed(UNTIL_CLOSE) is None
    assert reader.end() == Answer(200, closes=False)
    reader = Reader()
    assert reader.feed(WHOLE[:-1]) is None
    assert reader.end() is None
    assert Reader().end() is None


def test_some_have_no_body() -> None:
    (answer,) = read(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert answer.status == 204
    (answer,) = read(WHOLE[:-4], without_body=True)
    assert answer.status == 503
    (answer,) = read(b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE)
    assert answer.status == 503


@pytest.mark.parametrize(
    ("received", "why"),
    [
        (b"SSH-2.0-nobody\r\n\r\n", "no HTTP"),
        (b"SSH-2.0", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "invalid literal"),
        (b"HTTP/1.1 many\r\n\r\n", "invalid literal"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n", "invalid literal"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 300, "no size"),
        (WHOLE + b"HTTP", "more than one"),
        (CHUNKED + b"HTTP", "more than one"),
    ],
)
def test_anything_else_is_refused(received: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(received)
