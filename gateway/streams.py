"""One answer that goes out value by value: as server-sent events, or as NDJSON where asked for.

Frames each value as it comes, and says how many the client has taken, so that a slow reader holds
back its own stream and no other. Who ends it, and with which error, is the call's to know.

    data: {"token": "mill"}             a value, always JSON

    event: end                          the last event; no stream that broke has it
    data: {"values": 1}

    event: error                        or this instead
    data: {"error": {"code": …}}

    : keep-alive                        while nothing comes
"""

from collections.abc import Callable
from typing import Protocol

from broker.wire.messages import Blob, Payload
from broker.wire.window import Window

KEEP_ALIVE_S = 15.0
"""Less than what proxies wait for a word (nginx: 60 s)."""

EVENTS_TYPE = "text/event-stream"
NDJSON_TYPE = "application/x-ndjson"
_NDJSON_TYPES = frozenset({NDJSON_TYPE, "application/ndjson", "application/jsonl"})


class Parts(Protocol):
    """What a stream is written to."""

    @property
    def is_write_paused(self) -> bool:
        """Whether the client has not read for a while."""

    def part(self, data: bytes) -> None:
        """Send a piece of the answer."""


def wants_ndjson(accept: str) -> bool:
    """Whether a client asks for lines of JSON, and not for events, or for events later."""
    for named in accept.lower().split(","):
        media_type = named.partition(";")[0].strip()
        if media_type == EVENTS_TYPE:
            return False
        if media_type in _NDJSON_TYPES:
            return True
    return False


class Events:
    """See the module. `credit` is told how many values the client has taken so far."""

    __slots__ = ("_connection", "_credit", "_is_ndjson", "_last_s", "_untold")

    def __init__(
        self, connection: Parts, credit: Callable[[int], None], *, is_ndjson: bool, now: float
    ) -> None:
        self._connection = connection
        self._credit = credit
        self._is_ndjson = is_ndjson
        self._untold = Window()
        self._last_s = now

    def value(self, payload: Payload, now: float) -> None:
        """The next value."""
        data = bytes_of(payload)
        self._connection.part(b"%b\n" % data if self._is_ndjson else b"data: %b\n\n" % data)
        self._last_s = now
        self._untold.send(len(payload))
        self.drained()

    def drained(self) -> None:
        """The client has read, perhaps."""
        if self._untold.is_half_full and not self._connection.is_write_paused:
            self._credit(self._untold.take_all())

    def end(self, values: int) -> None:
        """There are no more."""
        if not self._is_ndjson:
            self._connection.part(b'event: end\ndata: {"values": %d}\n\n' % values)

    def error(self, body: bytes) -> None:
        """It broke, and this is why, as JSON."""
        self._connection.part(
            b"%b\n" % body if self._is_ndjson else b"event: error\ndata: %b\n\n" % body
        )

    def tick(self, now: float) -> None:
        """A few times a second: where nothing was said for long, say that somebody is there."""
        if self._is_ndjson or now - self._last_s < KEEP_ALIVE_S:
            return
        self._last_s = now
        if not self._connection.is_write_paused:
            self._connection.part(b": keep-alive\n\n")


def bytes_of(payload: Payload) -> bytes:
    """A value in one piece."""
    if type(payload) is Blob:
        return b"".join([payload.body, *payload.buffers])  # type: ignore[list-item]
    return bytes(payload)  # type: ignore[arg-type]
