"""The open streams of a worker: who may go on, what they have come to, who is to end. Pure.

A stream is what `forward` returned in an item's place where that is an iterator. The loops advance
it; here is counted how far it may run ahead of its client, and gathered what is to be sent.
"""

from collections.abc import Callable, Iterable
from typing import Any

from broker.wire.messages import Failure, Outcome, Step, Streamed, StreamKey
from broker.wire.window import Window


class OpenStream:
    """One of them. `wake` is called when it may go on, or is over, for a reason from outside."""

    __slots__ = ("accept", "is_over", "iterator", "key", "number", "request_id", "wake", "window")

    def __init__(self, key: StreamKey, iterator: Any, request_id: str, accept: str = "") -> None:
        """`accept`: the form of its values, where they are not to be JSON."""
        self.key = key
        self.iterator = iterator
        self.request_id = request_id
        self.accept = accept
        self.number = 0  # of steps
        self.window = Window()
        self.is_over = False
        self.wake: Callable[[], None] = nobody

    @property
    def may_step(self) -> bool:
        """Whether its next value is wanted now."""
        return not self.is_over and self.window.is_open


def nobody() -> None:
    """Nobody waits for it."""


class OpenStreams:
    """See the module."""

    __slots__ = ("_streams", "_unsent")

    def __init__(self) -> None:
        self._streams: dict[StreamKey, OpenStream] = {}
        self._unsent: list[Step] = []

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def keys(self) -> list[StreamKey]:
        """Their names, for the broker."""
        return list(self._streams)

    def open(self, stream: OpenStream) -> None:
        """One more, whose batch is done."""
        self._streams[stream.key] = stream

    def advance(self, stream: OpenStream, outcome: Outcome) -> None:
        """A stream has come to this; where it was told to stop meanwhile nobody wants it."""
        if stream.is_over:
            return
        stream.number += 1
        self._unsent.append(Step(*stream.key, stream.number, outcome))
        if isinstance(outcome, Failure | Streamed):
            stream.is_over = True
            del self._streams[stream.key]
        else:
            stream.window.send(len(outcome))

    def credit(self, taken: Iterable[tuple[int, int, int]]) -> None:
        """Clients have taken so many values of these, from the first one on."""
        for lease, place, values in taken:
            stream = self._streams.get((lease, place))
            if stream is not None:
                stream.window.take(values)
                stream.wake()

    def stop(self, keys: Iterable[StreamKey]) -> None:
        """Nobody wants anything more of these; some may have ended by themselves."""
        for key in keys:
            stream = self._streams.pop(key, None)
            if stream is not None:
                stream.is_over = True
                stream.wake()

    def stop_all(self) -> None:
        """Their broker is gone, or this worker is about to go."""
        self.stop(self.keys)
        self._unsent.clear()

    def take_unsent(self) -> list[Step]:
        """What is to be sent now."""
        unsent, self._unsent = self._unsent, []
        return unsent

    @property
    def has_unsent(self) -> bool:
        """Whether there is something to send."""
        return bool(self._unsent)
