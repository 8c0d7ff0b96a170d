"""Reading answers: complete ones in any pieces, and what is none."""

import pytest

from benchmarks import answers
from benchmarks.answers import Answer

WHOLE = b"HTTP/1.1 503 Service Unavailable\r\nCONTENT-LENGTH: 4\r\nRetry-After: 1\r\n\r\nbusy"


def test_an_answer_is_complete_with_its_last_byte() -> None:
    for cut in range(len(WHOLE)):
        assert answers.parse(WHOLE[:cut]) is None
    assert answers.parse(WHOLE) == Answer(status=503, closes=False)


def test_a_server_may_close_after_it() -> None:
    closing = WHOLE.replace(b"Retry-After: 1", b"Connection: Close")
    assert answers.parse(closing) == Answer(status=503, closes=True)


@pytest.mark.parametrize(
    ("received", "why"),
    [
        (b"SSH-2.0-nobody\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "without a length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "invalid literal"),
        (WHOLE + b"HTTP", "more than one"),
    ],
)
def test_anything_else_is_refused(received: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        answers.parse(received)
