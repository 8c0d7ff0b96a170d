"""Server-sent events as MOSEC has them: text as it is, and no event that says that it was all.

A client knows the end by the end of the answer. That a stream broke it learns by an `error` event.
"""

import msgspec

from broker.wire.messages import Payload
from gateway.streams import Events, bytes_of


class MosecEvents(Events):
    """See the module; the values are strings."""

    __slots__ = ()

    def value(self, payload: Payload, now: float) -> None:
        """See `Events`."""
        text = msgspec.json.decode(bytes_of(payload), type=str)
        self._connection.part(_lines(text))
        self._last_s = now
        self._untold.send(len(payload))
        self.drained()

    def end(self, values: int) -> None:
        """Nothing is said."""

    def error(self, body: bytes) -> None:
        """It broke, and this is why, as text."""
        self._connection.part(b"event: error\n" + _lines(body.decode("utf-8", "replace")))


def _lines(text: str) -> bytes:
    """A value of several lines has a field for each."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = [f"data: {line}\n" for line in text.split("\n")]
    return "".join((*lines, "\n")).encode("utf-8", "replace")
