"""numpy arrays and scalars <-> a header and their bytes.

Imported only once numpy itself is there or an array arrives. The header names dtype, order and
shape; the bytes are the array's memory in that order. Which dtypes travel: every one whose values
lie in the array's own memory and whose name numpy reads back (so neither object, nor structured,
nor variable-width strings, nor dtypes that other packages registered).
"""

import re
import struct
import sys
from functools import lru_cache
from math import prod
from typing import Any, Literal

import numpy as np

from broker.payload.errors import BadPayload, CannotTravel
from broker.payload.unwritten import Unwritten

Order = Literal["C", "F"]

MAX_EMPTY = 1 << 16
"""Far more than any answer has a use for, and made within milliseconds."""

# length of the header, 0 for C or 1 for Fortran order, number of axes
_FIXED = struct.Struct("<HBB")
_DTYPE_NAME = re.compile(r"[<>|][biufcSUVmM][0-9]{1,9}(\[[0-9]{0,9}[a-zA-Z]{1,7}\])?", re.ASCII)


def header_bytes(dtype_name: str, shape: tuple[int, ...], fortran: bool) -> bytes:
    """The header of an array or tensor; its first two bytes are its own length."""
    name = dtype_name.encode("ascii")
    length = _FIXED.size + 8 * len(shape) + len(name)
    return _FIXED.pack(length, fortran, len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + name


def parse_header(header: bytes) -> tuple[str, tuple[int, ...], Order]:
    """The dtype's name, shape and order that `header_bytes` was given; raises BadPayload."""
    try:
        _, fortran, axes = _FIXED.unpack_from(header)
        shape = struct.unpack_from(f"<{axes}Q", header, _FIXED.size)
        return header[_FIXED.size + 8 * axes :].decode("ascii"), shape, "F" if fortran else "C"
    except (struct.error, UnicodeDecodeError) as error:
        raise BadPayload(f"broken array header: {error}") from error


# The same few dtypes and shapes come again and again: 1024 of them are a few hundred KiB at most.
@lru_cache(maxsize=1024)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...], fortran: bool) -> bytes:
    if dtype.hasobject or dtype.names or not _is_named_by_numpy(dtype):
        hint = "only dtypes whose values have a fixed size and a name in numpy"
        if dtype.names:
            hint = "send one array for each field instead of a structured dtype"
        elif dtype.kind == "T":
            hint = "convert it to a fixed width, such as astype('U')"
        elif dtype.kind == "O":
            hint = "its elements are Python objects: send a list"
        raise CannotTravel(f"numpy array of dtype {dtype}", reason=hint)
    return header_bytes(dtype.str, shape, fortran)


def _is_named_by_numpy(dtype: np.dtype[Any]) -> bool:
    # A dtype of another package (bfloat16 of ml_dtypes is one) calls itself "<V2", which is
    # another dtype: its values would arrive as raw bytes.
    return bool(_DTYPE_NAME.fullmatch(dtype.str) or dtype.str in ("<M8", "<m8", ">M8", ">m8")) and (
        np.dtype(dtype.str) == dtype
    )


@lru_cache(maxsize=1024)
def _layout(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any], int, Order]:
    name, shape, order = parse_header(header)
    if not (_DTYPE_NAME.fullmatch(name) or name in ("<M8", "<m8", ">M8", ">m8")):
        raise BadPayload(f"no dtype of an array: {name[:40]!r}")
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadPayload(f"no dtype of an array: {name!r}") from error
    return shape, dtype, dtype.itemsize * prod(shape), order


_TEXT_HEADER = header_bytes("<U0", (), False)
_BYTES_HEADER = header_bytes("|S0", (), False)


class _UnwrittenArray:
    """An array whose values lie in its memory neither in C nor in Fortran order."""

    __slots__ = ("_array", "nbytes")

    def __init__(self, array: Any) -> None:
        self._array = array
        self.nbytes: int = array.nbytes

    def write_to(self, memory: memoryview) -> None:
        """In C order: see `Unwritten`."""
        array = self._array
        np.copyto(np.ndarray(array.shape, array.dtype, memory), array)

    def tobytes(self) -> bytes:
        """In C order: see `Unwritten`."""
        data: bytes = self._array.tobytes()
        return data


def write_array(array: Any, spill_bytes: int) -> tuple[bytes, bytes | memoryview | Unwritten]:
    """Header and bytes of an ndarray (or memmap); from `spill_bytes` on a view, not a copy.

    One that is contiguous in no order stays unwritten instead. Raises CannotTravel for other
    subclasses, which carry more than their values, and by dtype.
    """
    if type(array) is not np.ndarray:
        if type(array) is not np.memmap:
            raise CannotTravel(type(array).__name__, reason="a subclass of numpy.ndarray")
        array = np.asarray(array)
    flags = array.flags
    shape = array.shape
    fortran = False
    if not flags.c_contiguous:
        if flags.f_contiguous:
            array = array.T
            fortran = True
        elif array.nbytes >= spill_bytes:
            return _header(array.dtype, shape, False), _UnwrittenArray(array)
    header = _header(array.dtype, shape, fortran)
    if array.nbytes < spill_bytes:
        return header, array.tobytes()
    return header, array.reshape(-1).view(np.uint8).data


def size_bytes_of(header: bytes) -> int:
    """How many bytes an array with this header has; raises BadPayload."""
    return _layout(header)[2]


def read_array(header: bytes, data: bytes | memoryview) -> Any:
    """The array over `data`, which must be read-only: a view where `data` is aligned for it."""
    shape, dtype, size_bytes, order = _layout(header)
    if len(data) != size_bytes:
        raise BadPayload(f"an array of {size_bytes} bytes came with {len(data)}")
    array: Any = np.ndarray(shape, dtype, data, order=order)
    if not array.flags.aligned:  # legal, but slow, and C code of plug-ins may not expect it
        array = array.copy(order)
        array.flags.writeable = False
    return array


def write_scalar(scalar: Any) -> tuple[bytes, bytes]:
    """Header and bytes of a numpy scalar."""
    if type(scalar) is not scalar.dtype.type:
        raise CannotTravel(type(scalar).__name__, reason="a subclass of a numpy scalar")
    # As arrays of no axes, these two would lose the zeros at their end.
    if isinstance(scalar, np.str_):
        return _TEXT_HEADER, scalar.encode("utf-8", "surrogatepass")
    if isinstance(scalar, np.bytes_):
        return _BYTES_HEADER, scalar[:]
    return _header(scalar.dtype, (), False), scalar.tobytes()


def read_scalar(header: bytes, data: bytes | memoryview) -> Any:
    """The scalar of the dtype that the header names; raises BadPayload."""
    if header == _TEXT_HEADER:
        return np.str_(str(data, "utf-8", "surrogatepass"))
    if header == _BYTES_HEADER:
        return np.bytes_(bytes(data))
    array = read_array(header, data)
    if array.ndim or array.dtype.kind in "US":
        raise BadPayload("a scalar with axes, or a text in the form of an array")
    return array[()]


def refuse_many_empty(values: Any) -> None:
    """Raise CannotTravel for an array or tensor without a byte that would fill memory with lists.

    One of shape (2**40, 0), or of 2**40 texts of no length, has none: nothing else bounds it.
    """
    shape = tuple(values.shape)
    if not values.nbytes and prod(shape[: shape.index(0)] if 0 in shape else shape) > MAX_EMPTY:
        raise CannotTravel(f"array of shape {shape}", reason="too many empty lists or texts")


def to_lists(values: Any) -> object:
    """An array as nested lists, a numpy scalar as a Python value; times as ISO 8601, NaT as None.

    Raises CannotTravel for what a client of JSON or msgpack could not read.
    """
    dtype = values.dtype
    refuse_many_empty(values)
    if dtype.kind in "cmV":
        reason = {
            "c": "send real and imaginary parts",
            "m": "send it as numbers, such as values / np.timedelta64(1, 's')",
            "V": "send one array for each field",
        }[dtype.kind]
        raise CannotTravel(f"numpy {type(values).__name__} of dtype {dtype}", reason=reason)
    if dtype.kind == "M":
        texts = np.asarray(np.datetime_as_string(values), dtype=object)
        texts[np.isnat(values)] = None
        return texts.tolist()
    if dtype.kind == "U":
        _require_characters(values)
    if dtype.char == "g":  # tolist() would leave numpy's own long doubles in the list
        with np.errstate(over="ignore", invalid="ignore"):
            values = values.astype(np.float64)
    return values.tolist()


def _require_characters(texts: Any) -> None:
    """Raise CannotTravel where text is made of numbers that are none: numpy makes a str of any."""
    if texts.nbytes:
        codes = np.ascontiguousarray(texts).view(f"{texts.dtype.str[0]}u4")
        if codes.max() > sys.maxunicode:
            raise CannotTravel("numpy array of text", reason="it holds what is no character")
