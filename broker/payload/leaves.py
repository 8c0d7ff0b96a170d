"""The values that msgpack itself does not have <-> ext types: times, arrays, scalars, tensors.

One code for each, append-only: two releases may talk to each other. An array or tensor is either
`header + bytes`, all inside the ext type, or `header + index` with its bytes in the buffer of that
index. numpy and torch are looked at only when the process has imported them already (else no such
object can exist), or when one arrives.
"""

import struct
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

from msgpack import ExtType  # type: ignore[import-untyped]  # it ships no types

from broker.payload.errors import BadPayload, CannotTravel
from broker.payload.limits import MAX_INT, MIN_INT
from broker.payload.unwritten import Unwritten

Buffer: TypeAlias = bytes | bytearray | memoryview
Buffers: TypeAlias = list[Buffer | Unwritten]

TUPLE = 1  # its items as a msgpack array
TEXT = 2  # a str with lone surrogates, which UTF-8 does not have
DATETIME = 3
ARRAY = 4
SCALAR = 5
TENSOR = 6
BYTES_APART = 7  # index
ARRAY_APART = 8
TENSOR_APART = 9

Writer: TypeAlias = Callable[[object, Buffers, int], ExtType]
ArrayWriter: TypeAlias = Callable[[Any, int], tuple[bytes, Buffer | Unwritten]]

_INDEX = struct.Struct("<I")
# year, month, day, hour, minute, second, flags, microsecond, offset from UTC in microseconds
_DATETIME = struct.Struct("<HBBBBBBIq")
_FOLD = 1
_AWARE = 2
_MICROSECOND = timedelta(microseconds=1)


def ext(code: int, data: bytes) -> ExtType:
    """An ExtType, made without the checks of its constructor, which cost more than the packing."""
    return tuple.__new__(ExtType, (code, data))


def writer_for(kind: type) -> Writer:
    """How objects of exactly this type are written; raises CannotTravel, without a path.

    Exactly: a subclass (an enum, a namedtuple, an OrderedDict, …) would arrive as something else.
    """
    writer = _WRITERS.get(kind)
    if writer is None:
        writer = _find_writer(kind)
        if writer is None:
            raise CannotTravel(kind.__name__, reason=_reason(kind))
        _WRITERS[kind] = writer
    return writer


def _find_writer(kind: type) -> Writer | None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "generic"):  # not half imported by another thread
        if issubclass(kind, numpy.ndarray):
            if kind is numpy.ndarray:
                from broker.payload.arrays import write_array  # noqa: PLC0415

                ARRAY_WRITERS[kind] = write_array
            return _write_array
        if issubclass(kind, numpy.generic):
            return _write_scalar
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "Tensor") and issubclass(kind, torch.Tensor):
        return _write_tensor
    return None


def _reason(kind: type) -> str:
    if kind is int:
        return f"only integers from {MIN_INT} to {MAX_INT} have a form in 64 bits"
    for base in (dict, list, tuple, str, bytes, bool, int, float, datetime):
        if issubclass(kind, base):
            return f"a subclass of {base.__name__} would arrive as something else: convert it"
    return ""


def _write_datetime(obj: object, _buffers: Buffers, _spill_bytes: int) -> ExtType:
    assert isinstance(obj, datetime)
    offset = obj.utcoffset()
    return ext(
        DATETIME,
        _DATETIME.pack(
            obj.year,
            obj.month,
            obj.day,
            obj.hour,
            obj.minute,
            obj.second,
            obj.fold * _FOLD | (0 if offset is None else _AWARE),
            obj.microsecond,
            0 if offset is None else offset // _MICROSECOND,
        ),
    )


def _write_array(obj: object, buffers: Buffers, spill_bytes: int) -> ExtType:
    from broker.payload.arrays import write_array  # noqa: PLC0415  numpy is there already

    header, data = write_array(obj, spill_bytes)
    if type(data) is bytes:
        return ext(ARRAY, header + data)
    return _apart(ARRAY_APART, header, data, buffers)


def _write_scalar(obj: object, _buffers: Buffers, _spill_bytes: int) -> ExtType:
    from broker.payload.arrays import write_scalar  # noqa: PLC0415

    header, data = write_scalar(obj)
    return ext(SCALAR, header + data)


def _write_tensor(obj: object, buffers: Buffers, spill_bytes: int) -> ExtType:
    from broker.payload.tensors import write_tensor  # noqa: PLC0415  torch is there already

    header, data = write_tensor(obj, spill_bytes)
    if type(data) is bytes:
        return ext(TENSOR, header + data)
    return _apart(TENSOR_APART, header, data, buffers)


def write_bytes_apart(data: Buffer, buffers: Buffers) -> ExtType:
    """Bytes that go out of band."""
    return _apart(BYTES_APART, b"", data, buffers)


def _apart(code: int, header: bytes, data: Buffer | Unwritten, buffers: Buffers) -> ExtType:
    buffers.append(data)
    return ext(code, join_apart(header, len(buffers) - 1))


def join_apart(header: bytes, number: int) -> bytes:
    """The data of an ext type whose bytes are the buffer of this number."""
    return header + _INDEX.pack(number)


_WRITERS: dict[type, Writer] = {datetime: _write_datetime}
ARRAY_WRITERS: dict[type, ArrayWriter] = {}
"""For numpy's plain arrays, once one was written."""


def read(code: int, data: memoryview, buffers: Sequence[Buffer]) -> object:
    """The object of an ext type, tuples apart; raises BadPayload and what numpy raises."""
    reader = _READERS.get(code)
    if reader is None:
        raise BadPayload(f"unknown ext type {code}")
    return reader(data, buffers)


def _read_text(data: memoryview, _buffers: Sequence[Buffer]) -> str:
    return str(data, "utf-8", "surrogatepass")


def _read_datetime(data: memoryview, _buffers: Sequence[Buffer]) -> datetime:
    try:
        year, month, day, hour, minute, second, flags, micro, offset = _DATETIME.unpack(data)
    except struct.error as error:
        raise BadPayload(f"broken datetime: {error}") from error
    zone = timezone(timedelta(microseconds=offset)) if flags & _AWARE else None
    fold = flags & _FOLD
    return datetime(year, month, day, hour, minute, second, micro, zone, fold=fold)


def _read_array(data: memoryview, _buffers: Sequence[Buffer]) -> object:
    from broker.payload.arrays import read_array  # noqa: PLC0415  an array arrives: now numpy

    header, rest = _split(data)
    # A copy: inside the body nothing is aligned, and a view would keep all of the body alive.
    return read_array(header, bytes(rest))


def _read_scalar(data: memoryview, _buffers: Sequence[Buffer]) -> object:
    from broker.payload.arrays import read_scalar  # noqa: PLC0415

    header, rest = _split(data)
    return read_scalar(header, bytes(rest))


def _read_tensor(data: memoryview, _buffers: Sequence[Buffer]) -> object:
    from broker.payload.tensors import read_tensor  # noqa: PLC0415  a tensor arrives: now torch

    return read_tensor(*_split(data))


def _read_bytes_apart(data: memoryview, buffers: Sequence[Buffer]) -> bytes:
    buffer = _buffer(data, buffers)
    return buffer if type(buffer) is bytes else bytes(buffer)


def _read_array_apart(data: memoryview, buffers: Sequence[Buffer]) -> object:
    from broker.payload.arrays import read_array  # noqa: PLC0415

    header, index = _split(data)
    return read_array(header, memoryview(_buffer(index, buffers)).toreadonly().cast("B"))


def _read_tensor_apart(data: memoryview, buffers: Sequence[Buffer]) -> object:
    from broker.payload.tensors import read_tensor  # noqa: PLC0415

    header, index = _split(data)
    return read_tensor(header, memoryview(_buffer(index, buffers)).cast("B"))


def _split(data: memoryview) -> tuple[bytes, memoryview]:
    if len(data) < 2:
        raise BadPayload("an array without a header")
    end = data[0] | data[1] << 8
    return bytes(data[:end]), data[end:]


def split_apart(data: memoryview) -> tuple[bytes, int]:
    """The header and number that `join_apart` was given; raises BadPayload."""
    header, index = _split(data)
    return header, _number(index)


def _number(index: memoryview) -> int:
    if len(index) != _INDEX.size:
        raise BadPayload("a broken reference to a buffer")
    number: int = _INDEX.unpack(index)[0]
    return number


def _buffer(index: memoryview, buffers: Sequence[Buffer]) -> Buffer:
    number = _number(index)
    if number >= len(buffers):
        raise BadPayload(f"buffer {number} of {len(buffers)}")
    buffer: Buffer = buffers[number]
    return buffer


_READERS: dict[int, Callable[[memoryview, Sequence[Buffer]], object]] = {
    TEXT: _read_text,
    DATETIME: _read_datetime,
    ARRAY: _read_array,
    SCALAR: _read_scalar,
    TENSOR: _read_tensor,
    BYTES_APART: _read_bytes_apart,
    ARRAY_APART: _read_array_apart,
    TENSOR_APART: _read_tensor_apart,
}
