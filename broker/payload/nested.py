"""Lists of numbers, nested or flat, <-> the bytes of a tensor, for bodies of JSON and msgpack.

Without numpy, so that gateways need none. What does not fit is named with its path.
"""

import struct
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any, NoReturn

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import Mismatch

_LENGTH = struct.Struct("<I")


def flatten(
    value: object, shape: Sequence[int], path: str, *, may_be_flat: bool = True
) -> tuple[list[Any], list[int]]:
    """The elements of `value` in row-major order, and the shape that they have.

    `value` is nested as `shape` says, in which -1 stands for any length, or flat, where it may be,
    if at most one length is open. Raises Mismatch.
    """
    if not shape:
        is_wrapped = may_be_flat and type(value) is list and len(value) == 1
        return (value, []) if is_wrapped else ([value], [])  # type: ignore[return-value]
    if type(value) is not list:
        raise Mismatch(f"expected an array, got {kind_of(value)} - at `{path}`")
    if may_be_flat and len(shape) > 1 and list not in set(map(type, value)):
        return value, _shape_of_flat(len(value), shape, path)
    level: list[Any] = [value]
    found: list[int] = []
    for depth, length in enumerate(shape):
        if not level:
            found += [max(length, 0) for length in shape[depth:]]
            break
        if length == -1 and type(level[0]) is list:
            length = len(level[0])  # noqa: PLW2901
        for number, child in enumerate(level):
            if type(child) is not list:
                where = path + indexes(number, found)
                raise Mismatch(f"expected an array, got {kind_of(child)} - at `{where}`")
            if len(child) != length:
                where = path + indexes(number, found)
                raise Mismatch(f"expected {length} elements, got {len(child)} - at `{where}`")
        found.append(length)
        level = list(chain.from_iterable(level)) if depth or len(level) > 1 else level[0]
    return level, found


def nest(elements: list[Any], shape: Sequence[int]) -> Any:
    """The reverse of `flatten`: lists nested as the shape says; where it has no axes, the one
    element."""
    if not shape:
        return elements[0]
    level = elements
    for axis in range(len(shape) - 1, 0, -1):
        length = shape[axis]
        level = [level[at * length : (at + 1) * length] for at in range(prod(shape[:axis]))]
    return level


def _shape_of_flat(count: int, shape: Sequence[int], path: str) -> list[int]:
    known = prod(length for length in shape if length != -1)
    if -1 not in shape:
        if count != known:
            raise Mismatch(f"expected {known} elements, got {count} - at `{path}`")
        return list(shape)
    if shape.count(-1) > 1:
        if not count:
            return [max(length, 0) for length in shape]
        raise Mismatch(f"expected arrays nested as the shape {list(shape)} says - at `{path}`")
    if known and count % known:
        raise Mismatch(f"expected a multiple of {known} elements, got {count} - at `{path}`")
    if count and not known:
        raise Mismatch(f"expected no elements, got {count} - at `{path}`")
    open_length = count // known if known else 0
    return [open_length if length == -1 else length for length in shape]


def pack_elements(elements: list[Any], datatype: str, shape: Sequence[int], path: str) -> bytes:
    """The bytes of elements that `flatten` gave. Raises Mismatch for one of another type."""
    kind = DATATYPES[datatype]
    if not kind.python.issuperset(map(type, elements)):
        _refuse_type(elements, datatype, shape, path)
    try:
        if datatype == "BYTES":
            return _pack_texts(elements)
        data = struct.pack(f"<{len(elements)}{kind.code or 'f'}", *elements)
    except (struct.error, OverflowError):
        _refuse_range(elements, datatype, shape, path)
    return data if kind.code else _upper_halves(data)


def unpack_elements(data: bytes | memoryview, datatype: str) -> list[Any]:
    """The elements of a tensor. Raises UnicodeDecodeError for BYTES that are no UTF-8."""
    if datatype == "BYTES":
        return [str(element, "utf-8") for element in split_elements(data)]
    size_bytes, code, _ = DATATYPES[datatype]
    if not code:
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        data, code, size_bytes = bytes(wide), "f", 4
    return list(struct.unpack(f"<{len(data) // size_bytes}{code}", data))


def split_elements(data: bytes | memoryview) -> list[memoryview]:
    """The elements of BYTES, one after the other. Raises ValueError where a length lies."""
    view = memoryview(data)
    found: list[memoryview] = []
    at, end = 0, len(view)
    while at < end:
        if end - at < _LENGTH.size:
            raise ValueError(f"the length of element {len(found)} is cut off")
        (length,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if length > end - at:
            raise ValueError(
                f"element {len(found)} says that it has {length} bytes, where {end - at} are left"
            )
        found.append(view[at : at + length])
        at += length
    return found


def join_elements(elements: Sequence[bytes]) -> bytes:
    """The reverse of `split_elements`."""
    return b"".join(chain.from_iterable((_LENGTH.pack(len(each)), each) for each in elements))


def _pack_texts(elements: list[Any]) -> bytes:
    return join_elements([e.encode() if isinstance(e, str) else e for e in elements])


def _upper_halves(data: bytes) -> bytes:
    """FP32 as BF16, cut off: what is a BF16 stays what it is."""
    halves = bytearray(len(data) // 2)
    halves[0::2], halves[1::2] = data[2::4], data[3::4]
    return bytes(halves)


def _refuse_type(elements: list[Any], datatype: str, shape: Sequence[int], path: str) -> NoReturn:
    known = DATATYPES[datatype].python
    number, element = next((n, e) for n, e in enumerate(elements) if type(e) not in known)
    where = path + indexes(number, shape)
    raise Mismatch(f"expected {datatype}, got {kind_of(element)} - at `{where}`")


def _refuse_range(elements: list[Any], datatype: str, shape: Sequence[int], path: str) -> NoReturn:
    code = DATATYPES[datatype].code or "f"
    for number, element in enumerate(elements):
        try:
            struct.pack(f"<{code}", element)
        except (struct.error, OverflowError):
            where = path + indexes(number, shape)
            text = f"{element!r:.40}"
            raise Mismatch(f"{text} is beyond the range of {datatype} - at `{where}`") from None
    raise AssertionError("each element can be packed, and all of them cannot")


def indexes(number: int, shape: Sequence[int]) -> str:
    """Where the element of that number stands, as `[0][3]`."""
    text = ""
    for length in reversed(shape):
        number, index = divmod(number, length)
        text = f"[{index}]{text}"
    return text


def kind_of(value: object) -> str:
    """What a client of JSON calls it."""
    return {
        dict: "object", list: "array", str: "text", bool: "bool", int: "int", float: "float",
        type(None): "null",
    }.get(type(value), type(value).__name__)  # fmt: skip
