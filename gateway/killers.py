"""The memory of request bodies that killed workers: their like is refused for a minute.

Pure. A body can stand near deaths that it has not caused, as one that every client sends does when
workers are killed from outside. So one that is known to have passed is not blamed: it was answered
with a result a short while ago, or is so now, by a request that was under way when it was blamed.
While nothing is remembered nothing is hashed, so that the rules cost nothing on good days.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from hashlib import blake2b

from broker.wire.frames import Buffer

REMEMBER_S = 60.0
MAX_REMEMBERED = 1024
"""More within a minute are a broken model, which refusing bodies will not mend."""
MAX_PASSED = 128
"""Of each pipeline: a body that many clients send is soon among them."""


class Killers:
    """Digests of (pipeline, body), each with the time until which it counts."""

    __slots__ = ("_cleared", "_passed", "blamed", "blamed_s")

    def __init__(self) -> None:
        self.blamed_s = float("-inf")
        """When a body was last blamed: requests that came later say nothing about it."""
        self.blamed: dict[bytes, float] = {}
        """While it is empty, nothing needs to be asked."""
        self._cleared: dict[bytes, float] = {}
        self._passed: defaultdict[str, deque[bytes]] = defaultdict(_ring)

    def remember(self, pipeline: str, parts: Sequence[Buffer], now: float) -> None:
        """This body ended in `worker_crashed`: it is blamed, unless it is known to have passed."""
        if len(parts) == 1 and parts[0] in self._passed[pipeline]:
            return
        digest = _digest(pipeline, parts)
        _forget(self._cleared, now)
        if digest not in self._cleared:
            _keep(self.blamed, digest, now)
            self.blamed_s = now

    def knows(self, pipeline: str, parts: Sequence[Buffer], now: float) -> bool:
        """Whether a body like this killed a worker within the last minute."""
        _forget(self.blamed, now)
        return bool(self.blamed) and _digest(pipeline, parts) in self.blamed

    def passed(self, pipeline: str, body: bytes) -> None:
        """A small body was answered with a result. It is kept as it is, unhashed."""
        self._passed[pipeline].append(body)

    def clear(self, pipeline: str, parts: Sequence[Buffer], now: float) -> None:
        """This body was answered with a result though it may be blamed: it no longer is, and will
        not be for a minute. To be called for requests from before `blamed_s`.
        """
        if self.knows(pipeline, parts, now):
            digest = _digest(pipeline, parts)
            del self.blamed[digest]
            _keep(self._cleared, digest, now)

    def __len__(self) -> int:
        return len(self.blamed)


def _ring() -> deque[bytes]:
    return deque(maxlen=MAX_PASSED)


def _keep(until: dict[bytes, float], digest: bytes, now: float) -> None:
    """Remember a digest for a minute from now, the oldest giving way."""
    until.pop(digest, None)  # it moves to the end: entries stand in order
    if len(until) >= MAX_REMEMBERED:
        del until[next(iter(until))]
    until[digest] = now + REMEMBER_S


def _forget(until: dict[bytes, float], now: float) -> None:
    """Drop what is over, from the front."""
    while until:
        digest, end = next(iter(until.items()))
        if end > now:
            return
        del until[digest]


def _digest(pipeline: str, parts: Sequence[Buffer]) -> bytes:
    digest = blake2b(pipeline.encode() + b"\0", digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()
