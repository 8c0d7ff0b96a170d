"""The memory of request bodies that killed workers: their like is refused for a minute.

Pure. While nothing is remembered nothing is hashed, so that the rule costs nothing on good days.
"""

from collections.abc import Iterable
from hashlib import blake2b

from broker.wire.frames import Buffer

REMEMBER_S = 60.0
MAX_REMEMBERED = 1024
"""More within a minute are a broken model, which refusing bodies will not mend."""


class Killers:
    """Digests of (pipeline, body), each with the time until which it counts."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}

    def remember(self, pipeline: str, parts: Iterable[Buffer], now: float) -> None:
        """This body ended in `worker_crashed`."""
        digest = _digest(pipeline, parts)
        self._until.pop(digest, None)  # it moves to the end: entries stand in order
        if len(self._until) >= MAX_REMEMBERED:
            del self._until[next(iter(self._until))]
        self._until[digest] = now + REMEMBER_S

    def knows(self, pipeline: str, parts: Iterable[Buffer], now: float) -> bool:
        """Whether a body like this killed a worker within the last minute."""
        self._forget(now)
        return bool(self._until) and _digest(pipeline, parts) in self._until

    def _forget(self, now: float) -> None:
        """Drop what is over, from the front."""
        while self._until:
            digest, until = next(iter(self._until.items()))
            if until > now:
                return
            del self._until[digest]

    def __len__(self) -> int:
        return len(self._until)


def _digest(pipeline: str, parts: Iterable[Buffer]) -> bytes:
    digest = blake2b(pipeline.encode() + b"\0", digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()
