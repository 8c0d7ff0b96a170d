"""Reads the one answer that a connection without pipelining can have in its buffer. Pure."""

from dataclasses import dataclass

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_CLOSE = b"\r\nconnection: close"


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer: its status, and whether the server ends the connection after it."""

    status: int
    closes: bool


def parse(received: bytes) -> Answer | None:
    """The answer that these bytes are, or None while some of it is missing.

    Raises ValueError for what is no such answer: no HTTP, no length, or more than one.
    """
    end = received.find(_END_OF_HEAD)
    if end < 0:
        return None
    head = received[:end].lower()
    if not head.startswith(b"http/1."):
        raise ValueError(f"no HTTP/1 answer: {received[:80]!r}")
    at = head.find(_LENGTH)
    if at < 0:
        raise ValueError(f"an answer without a length: {received[:80]!r}")
    length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
    missing = end + len(_END_OF_HEAD) + length - len(received)
    if missing < 0:
        raise ValueError("more than one answer to one request")
    return None if missing else Answer(status=int(head[9:12]), closes=_CLOSE in head)
