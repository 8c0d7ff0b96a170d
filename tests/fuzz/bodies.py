"""Bodies of clients and payloads between stages, changed: into the decoders of both.

Whatever comes, it is refused with the declared errors alone, soon, and without taking memory for
what it only claims to hold. What is taken can be passed on to every stage, and be answered with.
"""

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from math import prod
from random import Random
from typing import Any

import msgspec
import numpy as np
import torch

from broker.payload import leaves
from broker.payload.arrays import header_bytes
from broker.payload.bodies import decode_body, encode_body
from broker.payload.errors import BadBody, BadPayload, CannotTravel, UnsupportedType
from broker.payload.objects import pack, unpack
from gateway.inflate import Broken, TooLarge, inflate
from tests.fuzz.budget import Budget
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding

MAX_INFLATED_BYTES = 1 << 20

BOUNDARY = "frontier"
DTYPES = {
    "<f4": 4, ">i2": 2, "|u1": 1, "|b1": 1, "<M8[s]": 8, "<M8": 8, "<m8[Y]": 8, "<U1": 4, ">U3": 12,
    "<U0": 0, "|S2": 2, "|V4": 4, "<c16": 16, "<f2": 2, "<f16": 16, "float32": 4, "bfloat16": 2,
    "bool": 1, "complex64": 8, "float8_e4m3fn": 1, "uint4": 1,
}  # fmt: skip
"""Of arrays and tensors, and the bytes of a value."""
SIDES = (0, 1, 2, 3, 255, 1 << 16, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
TEXTS = ("", "a", "grüße", "\U0001f600", '"\\', "x" * 300, "2024-01-01T00:00:00Z", "NaN")
NUMBERS = (0, 1, -1, 2**53, 2**63 - 1, 2**64 - 1, -(2**63), 0.5, -0.0, 1e308, 5e-324)
ARRAYS: list[Any] = [
    np.arange(6, dtype=">f4"),
    np.arange(12).reshape(3, 4)[:, ::2],
    np.zeros((2, 0)),
    np.array(3.5),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.datetime64("2024-01-01"),
    np.float16(1.5),
    np.arange(2000, dtype=np.int32),
    torch.arange(5, dtype=torch.bfloat16),
    torch.zeros(3, 0),
    torch.arange(3000),
]


class Bodies:
    """The target; one step is one input."""

    name = "bodies"

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._mutator = Mutator(rng)
        self._budget = Budget()
        self._makers: list[Callable[[], tuple[bytes, str]]] = [
            self._json,
            self._msgpack,
            self._multipart,
            self._text,
        ]

    def step(self) -> int:
        """One input for one decoder."""
        return self._budget.step(self._one)

    def _one(self) -> None:
        chance = self._rng.random()
        if chance < 0.5:
            self._body()
        elif chance < 0.9:
            self._payload()
        else:
            self._compressed()

    def finish(self) -> dict[str, str]:
        """See `Budget`."""
        return self._budget.finish()

    def close(self) -> None:
        """Nothing was started."""

    # -------------------------------------------------------------- what clients send

    def _body(self) -> None:
        rng, mutator = self._rng, self._mutator
        body, content_type = rng.choice(self._makers)()
        if rng.random() < 0.7:
            body = mutator.data(body)
        if rng.random() < 0.1:
            content_type = mutator.data(content_type.encode()).decode("latin-1")
        try:
            self._take_body(body, content_type)
        except Exception as error:
            raise Finding(f"{content_type!r}: {body[:1000].hex()}") from error

    def _take_body(self, body: bytes, content_type: str) -> None:
        try:
            taken = decode_body(body, content_type)
        except (BadBody, UnsupportedType):
            return
        self._budget.taken += 1
        packed, buffers = pack(taken)
        again = unpack(packed, buffers)
        if repr(again) != repr(taken):
            raise AssertionError(f"another stage gets {again!r:.200}")
        with suppress(CannotTravel):  # msgpack has lists as keys, which no answer has
            for accept in ("", "application/msgpack"):
                decode_body(*encode_body(taken, accept))

    def _json(self) -> tuple[bytes, str]:
        changed = self._mutator.value(self._object())
        try:
            body = msgspec.json.encode(changed)
        except (TypeError, ValueError):
            body = b"[1, {}]"
        return body, self._rng.choice(("", "application/json", "a/b+json; charset=utf-8"))

    def _msgpack(self) -> tuple[bytes, str]:
        value = [self._object(), datetime(2024, 1, 1, tzinfo=UTC)]
        try:
            body = msgspec.msgpack.encode(self._mutator.value(value))
        except (TypeError, ValueError, OverflowError):
            body = b"\x92\x01\xc7\x05\x01hello"
        return body, "application/msgpack"

    def _multipart(self) -> tuple[bytes, str]:
        rng = self._rng
        body = b""
        for _ in range(rng.randint(0, 4)):
            name = rng.choice(("a", "b", "é", "../x", ""))
            file = rng.choice(("", '; filename="a/../b.png"', "; filename*=UTF-8''%C3%A9"))
            kind = rng.choice(("", "Content-Type: text/plain; charset=latin-1\r\n", "X: y\r\n"))
            head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n{kind}'
            body += head.encode() + b"\r\n" + rng.randbytes(rng.randint(0, 20)) + b"\r\n"
        return body + f"--{BOUNDARY}--\r\n".encode(), f"multipart/form-data; boundary={BOUNDARY}"

    def _text(self) -> tuple[bytes, str]:
        charset = self._rng.choice(("utf-8", "utf-16", "latin-1", "shift_jis", "utf-7", "idna"))
        return self._rng.choice(TEXTS).encode(), f"text/plain; charset={charset}"

    def _object(self, levels: int = 3) -> Any:
        rng = self._rng
        kind = rng.randrange(6 if levels else 4)
        if kind == 4:
            return [self._object(levels - 1) for _ in range(rng.randint(0, 4))]
        if kind == 5:
            return {rng.choice(TEXTS): self._object(levels - 1) for _ in range(rng.randint(0, 4))}
        return rng.choice((rng.choice(TEXTS), rng.choice(NUMBERS), None, True))

    # -------------------------------------------------------------- what stages send

    def _payload(self) -> None:
        rng, mutator = self._rng, self._mutator
        if rng.random() < 0.3:
            frames = [msgspec.msgpack.encode([self._lie()]), rng.randbytes(24)]
        else:
            value = [self._object(), rng.choice(ARRAYS), (1, rng.choice(ARRAYS)), {(1, "a"): b"x"}]
            body, buffers = pack(value, spill_bytes=rng.choice((0, 8, 4096)))
            frames = [body, *map(bytes, buffers)]
        if rng.random() < 0.8:
            frames = mutator.frames(frames) or [b""]
        try:
            self._take_payload(frames)
        except Exception as error:
            shown = " ".join(frame[:1000].hex() or "-" for frame in frames)
            raise Finding(f"payload: {shown}") from error

    def _lie(self) -> msgspec.msgpack.Ext:
        """An array or tensor that is not what its header says."""
        rng = self._rng
        shape = tuple(rng.choice(SIDES) for _ in range(rng.choice((0, 0, 1, 2, 6))))
        name, value_bytes = rng.choice(list(DTYPES.items()))
        header = header_bytes(name, shape, rng.random() < 0.5)
        if rng.random() < 0.2:
            header = self._mutator.data(header)
        size_bytes = prod(shape) * value_bytes
        honest = size_bytes <= 4096 and rng.random() < 0.8
        data = rng.randbytes(size_bytes) if honest else rng.choice((b"", b"\0" * 4, b"12345678"))
        code = rng.randint(leaves.TUPLE, leaves.TENSOR_APART)
        return msgspec.msgpack.Ext(code, header + data)

    def _take_payload(self, frames: list[bytes]) -> None:
        try:
            taken = unpack(frames[0], [memoryview(frame) for frame in frames[1:]])
        except BadPayload:
            return
        self._budget.taken += 1
        with suppress(CannotTravel):
            unpack(*pack(taken))  # which looks at every byte of the arrays
        with suppress(CannotTravel):
            encode_body(taken, self._rng.choice(("", "application/msgpack")))

    # -------------------------------------------------------------- compressed bodies

    def _compressed(self) -> None:
        rng = self._rng
        plain = rng.choice((b"", b"hello", b"\0" * (2 << 20), rng.randbytes(300)))
        body, encoding = rng.choice(
            ((gzip.compress(plain, mtime=0), "gzip"), (zlib.compress(plain), "deflate"))
        )
        body = self._mutator.data(body * rng.randint(1, 3))
        try:
            inflated = inflate(body, encoding, MAX_INFLATED_BYTES)
        except (Broken, TooLarge):
            return
        except Exception as error:
            raise Finding(f"{encoding}: {body[:1000].hex()}") from error
        if len(inflated) > MAX_INFLATED_BYTES:
            raise Finding(f"{encoding} gave {len(inflated)} bytes: {body[:1000].hex()}")
        self._budget.taken += 1
