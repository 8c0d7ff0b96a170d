"""Changes valid things into ones that are nearly so: bytes, frames of a message, and objects.

What it was shown before it splices in again, so that a lease of one message comes to stand in
another. Everything follows from one seeded Random: the same seed gives the same run.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

KEPT = 64
"""Samples to splice from, of each kind."""
BYTES = b"\x00\x01\x7f\x80\x90\xc0\xc1\xc4\xc7\xd7\xdd\xdf\xff \t\r\n\"'[]{}():;,=/%?#-+.0159aZ"

CLAIMS = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdc\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
)
"""The beginnings of lists, maps and bytes in msgpack that would fill memory."""

ODD: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 127, 255, 1 << 16, 1 << 31, 1 << 53),
    *((1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 63), -(1 << 31)),
    *(0.0, -0.0, -1.0, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
    *("", "p", "\x00", "a\r\nb: c", "é", "\U0001f600", "x" * 70_000),
    *(b"", b"\x00", b"\xff" * 9, b"x" * 70_000),
    *([], {}, [[]], [None] * 300, {"a": {"a": {}}}),
]


class Mutator:
    """See the module."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self._samples: deque[bytes] = deque([b"\x00"], KEPT)
        self._values: deque[Any] = deque([0], KEPT)

    # -------------------------------------------------------------- bytes

    def data(self, data: bytes) -> bytes:
        """One to four changes of it."""
        rng = self.rng
        self._samples.append(data[:4096])
        out = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            self._change(out)
        return bytes(out)

    def _change(self, out: bytearray) -> None:
        rng = self.rng
        at = rng.randint(0, len(out))
        few = rng.randint(1, 9)
        match rng.randrange(8):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(out):
                out[at] = rng.choice(BYTES)
            case 2:
                del out[at:]
            case 3:
                del out[at : at + few]
            case 4:
                out[at:at] = out[at : at + rng.randint(1, 40)]
            case 5:
                out[at:at] = rng.choice((bytes([rng.choice(BYTES)]) * few, rng.choice(CLAIMS)))
            case 6:
                sample = rng.choice(self._samples)
                out[at:] = sample[rng.randint(0, len(sample)) :]
            case _:
                out += rng.choice((rng.randbytes(few), out[-few:], b"\x00" * few))

    def frames(self, frames: Sequence[bytes]) -> list[bytes]:
        """A message of which a frame was changed, lost, doubled, added or moved."""
        rng = self.rng
        out = [bytes(frame) for frame in frames]
        at = rng.randrange(len(out))
        match rng.randrange(6):
            case 0:
                del out[at]
            case 1:
                out.insert(at, out[at])
            case 2:
                out.append(rng.choice(self._samples))
            case 3:
                out.append(out.pop(at))
            case _:
                out[at] = self.data(out[at])
        return out

    # -------------------------------------------------------------- objects

    def value(self, value: Any) -> Any:
        """The same object but for one place somewhere in it."""
        if isinstance(value, list | tuple | dict) and value and self.rng.random() < 0.8:
            return self._inside(value)
        if self.rng.random() < 0.3:
            return self.rng.choice(ODD)
        changed = self._changed(value)
        if not isinstance(value, list | tuple | dict):
            self._values.append(value)
        return changed

    def _inside(self, value: Any) -> Any:
        rng = self.rng
        if isinstance(value, dict):
            key = rng.choice(list(value))
            return {**value, key: self.value(value[key])}
        at = rng.randrange(len(value))
        return [*value[:at], self.value(value[at]), *value[at + 1 :]]

    def _changed(self, value: Any) -> Any:
        rng = self.rng
        other = rng.choice(self._values)
        match value:
            case list() | tuple():
                at = rng.randint(0, len(value))
                middle = rng.choice(([], [other], value[at : at + 1] * 2, [list(value)]))
                other = [*value[:at], *middle, *value[at + rng.randint(0, 2) :]]
            case dict():
                other = {**value, rng.choice(("a", 1, "")): other}
            case bool() | None:
                pass
            case int():
                other = rng.choice((value - 1, value + 1, value + (1 << 32), -value, other))
            case float():
                other = value * rng.choice((-1.0, 0.5, 1e9))
            case str():
                other = rng.choice((value[:-1], value * 2, other))
            case bytes():
                other = rng.choice((self.data(value), other))
        return other
