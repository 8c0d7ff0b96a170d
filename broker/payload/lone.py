"""Payloads that are one large array and nothing else, as most results between stages are.

Their body says no more than dtype and shape, so the same few come again and again: what is to be
written, and how it is to be read, is found out once for each. Whatever is not as simple as that is
left to the general way, which also has the words for what is wrong.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

import msgspec

from broker.payload.errors import CannotTravel
from broker.payload.leaves import (
    ARRAY_APART,
    ArrayWriter,
    Buffer,
    Buffers,
    join_apart,
    split_apart,
)

Reader: TypeAlias = Callable[[memoryview], Any]

_BODIES = 1024
_MAX_BODY_BYTES = 128
"""No body of an ordinary array is longer; 1024 of them take a few hundred KiB at most."""


def pack_lone(array: Any, write: ArrayWriter, spill_bytes: int) -> tuple[bytes, Buffers] | None:
    """What `objects.pack` makes of an array of at least `spill_bytes`; None for any other."""
    if array.nbytes < spill_bytes:
        return None
    try:
        header, data = write(array, spill_bytes)
    except CannotTravel:
        return None
    return _body(header), [data]


@lru_cache(maxsize=_BODIES)
def _body(header: bytes) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(ARRAY_APART, join_apart(header, 0)))


def unpack_lone(body: bytes, buffers: Sequence[Buffer]) -> Any:
    """What `objects.unpack` makes of the body of such an array; None for any other."""
    if len(buffers) != 1 or len(body) > _MAX_BODY_BYTES:
        return None
    buffer = buffers[0]
    if type(buffer) is not memoryview or not buffer.readonly or buffer.format != "B":
        return None
    size_bytes, read = _reader(body)
    return read(buffer) if len(buffer) == size_bytes else None


@lru_cache(maxsize=_BODIES)
def _reader(body: bytes) -> tuple[int, Reader]:
    """How many bytes the array has, and what makes it of them; -1 for any other body."""
    from broker.payload.arrays import read_array, size_bytes_of  # noqa: PLC0415  now numpy

    try:
        ext = msgspec.msgpack.decode(body)
        if type(ext) is not msgspec.msgpack.Ext or ext.code != ARRAY_APART:
            return -1, repr
        header, number = split_apart(memoryview(ext.data))
        return (size_bytes_of(header) if number == 0 else -1), partial(read_array, header)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return -1, repr
