"""Reads the answers on a connection that carries one request at a time. Pure.

A load generator must cost less than what it measures: one pass over each piece that comes, and of
a body no more is kept than what may name an error.
"""

from typing import NamedTuple

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_CHUNKED = b"\r\ntransfer-encoding: chunked"
_CLOSE = b"\r\nconnection: close"
_MOST_HEAD = 65_536
_MOST_SIZE_LINE = 256
KEPT_BYTES = 512
"""Of the body of an answer that is none of 2xx: `{"error": {"code": …` stands at its begin."""

_UNTIL_CLOSE = -1


class Answer(NamedTuple):
    """A complete answer: its status, whether the server ends the connection after it, and, but for
    2xx, the begin of its body.
    """

    status: int
    closes: bool
    body: bytes = b""


class Reader:
    """The answers of one connection. `without_body`: they have none, whatever they say (HEAD)."""

    __slots__ = ("_answer", "_buffer", "_chunked", "_in_trailer", "_left", "_without_body")

    def __init__(self, *, without_body: bool = False) -> None:
        self._without_body = without_body
        self._answer: Answer | None = None  # whose body is still to come
        self._buffer = b""
        self._chunked = False
        self._in_trailer = False
        self._left = 0  # bytes of the body, or of its chunk with the line's end

    def feed(self, data: bytes) -> Answer | None:
        """The answer that is complete with these bytes, or None while some of it is missing.

        Raises ValueError for what is no such answer: no HTTP/1, or more than one.
        """
        if self._answer is None:
            return self._read_head(self._buffer + data if self._buffer else data)
        return self._read_body(data)

    def end(self) -> Answer | None:
        """The connection has ended: the answer whose end that is, if it is one's."""
        answer, self._answer = self._answer, None
        return answer if self._left == _UNTIL_CLOSE and not self._chunked else None

    def _read_head(self, received: bytes) -> Answer | None:
        end = received.find(_END_OF_HEAD)
        if end < 0:
            if len(received) > _MOST_HEAD or not b"HTTP/1.".startswith(received[:7]):
                raise ValueError(f"no HTTP/1 answer: {received[:80]!r}")
            self._buffer = received
            return None
        head = received[:end].lower()
        if not head.startswith(b"http/1."):
            raise ValueError(f"no HTTP/1 answer: {received[:80]!r}")
        status = int(head[9:12])
        self._buffer = b""
        rest = received[end + len(_END_OF_HEAD) :]
        if status < 200:  # only a sign that the answer is on its way
            return self._read_head(rest) if rest else None
        answer = Answer(status, _CLOSE in head)
        if self._without_body or status in (204, 304):
            return self._finished(answer, rest)
        self._chunked = _CHUNKED in head
        if self._chunked:
            self._left = 0
        elif (at := head.find(_LENGTH)) >= 0:
            self._left = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
            if len(rest) == self._left:  # as nearly always
                return answer if 200 <= status < 300 else answer._replace(body=rest[:KEPT_BYTES])
        else:
            self._left = _UNTIL_CLOSE
        self._answer = answer
        return self._read_body(rest)

    def _read_body(self, data: bytes) -> Answer | None:
        answer = self._answer
        assert answer is not None
        if self._chunked:
            return self._read_chunks(self._buffer + data if self._buffer else data)
        self._keep(data)
        if self._left == _UNTIL_CLOSE:
            return None
        self._left -= len(data)
        return self._finished(self._answer, b"x" * -self._left) if self._left <= 0 else None

    def _read_chunks(self, data: bytes) -> Answer | None:
        self._buffer = b""
        at = 0
        while True:
            if self._left:
                piece = data[at : at + self._left]
                self._keep(piece[: max(self._left - 2, 0)])
                self._left -= len(piece)
                at += len(piece)
                if self._left:
                    return None
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > _MOST_SIZE_LINE and not self._in_trailer:
                    raise ValueError(f"no size of a chunk: {data[at : at + 80]!r}")
                self._buffer = data[at:]
                return None
            line, at = data[at:end], end + 2
            if self._in_trailer:
                if not line:
                    self._in_trailer = False
                    return self._finished(self._answer, data[at:])
                continue
            size = int(line.split(b";", 1)[0], 16)
            if size:
                self._left = size + 2
            else:
                self._in_trailer = True

    def _keep(self, piece: bytes) -> None:
        answer = self._answer
        if answer is not None and not 200 <= answer.status < 300 and piece:
            kept = (answer.body + piece)[:KEPT_BYTES]
            self._answer = answer._replace(body=kept)

    def _finished(self, answer: Answer | None, rest: bytes) -> Answer | None:
        self._answer = None
        if rest:
            raise ValueError("more than one answer to one request")
        return answer
