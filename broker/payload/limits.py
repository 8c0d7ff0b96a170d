"""The bounds that every payload keeps, and the cheap ways to see that one does.

Both directions and all formats share them, so that what a client may send is what every stage may
pass on. The walks here cost one C loop over the types of a container's children and enter only
children that are containers themselves.
"""

import math
from collections.abc import Iterable

MAX_DEPTH = 100
"""Levels of nesting: `[]` is one level. Far above any real document, far below what a C stack or
Python's own recursion limit allows, so that no step of the way can fail where another passed."""

MIN_INT = -(2**63)
MAX_INT = 2**64 - 1
"""The integers that msgpack has: signed or unsigned 64 bits."""

SPILL_BYTES = 4096
"""Buffers from this size on travel out of band. Inside the body each byte is copied some five times
on its way from array to array; measured, that outweighs the handling of a buffer apart from about
1 KiB on (pack and unpack of 4 KiB: 10 µs inside, 8 apart; 64 KiB: 62 and 8). The rest of the page
allows for the frame, which is allocated, counted and sent for itself at every hop."""

CONTAINERS = frozenset((dict, list, tuple))
BYTES_TYPES = frozenset((bytes, bytearray, memoryview))

_WATCHED = CONTAINERS | BYTES_TYPES
_MSGPACK_OPENERS = bytes(
    [*range(0x80, 0xA0), *range(0xDC, 0xE0), 0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)]
)
_NOT_MSGPACK_OPENERS = bytes(set(range(256)) - set(_MSGPACK_OPENERS))


def msgpack_may_be_deep(body: bytes) -> bool:
    """Whether msgpack `body` has enough bytes that could open a map, array or ext to be too deep.

    No level is opened by less than one such byte, so False is certain, and for text and for small
    bodies it takes well under a microsecond; True means that the objects must be looked at.
    """
    return len(body) > MAX_DEPTH and len(body.translate(None, _NOT_MSGPACK_OPENERS)) > MAX_DEPTH


def is_too_deep(obj: object, levels: int = MAX_DEPTH, large_bytes: float = math.inf) -> bool:
    """Whether `obj` nests dicts, lists and tuples (keys included) deeper than `levels`.

    Or, so that one walk sees to both, whether it holds bytes of size `large_bytes` or more as a
    value. Depth first: a structure that contains itself is seen after `levels` steps.
    """
    kind = type(obj)
    if kind not in CONTAINERS:
        return kind in BYTES_TYPES and _size(obj) >= large_bytes
    if levels == 0:
        return True
    if isinstance(obj, dict):
        if tuple in map(type, obj) and any(is_too_deep(key, levels - 1) for key in obj):
            return True
        obj = obj.values()
    children: Iterable[object] = obj  # type: ignore[assignment]  # a list, tuple or the values
    if _WATCHED.isdisjoint(map(type, children)):
        return False
    for child in children:
        if type(child) in _WATCHED and is_too_deep(child, levels - 1, large_bytes):
            return True
    return False


def has_big_int(obj: object) -> bool:
    """Whether `obj`, known to be no deeper than `MAX_DEPTH`, holds an int beyond 64 bits."""
    if type(obj) is int:
        return not MIN_INT <= obj <= MAX_INT
    if type(obj) is dict:
        return any(map(has_big_int, obj.values()))
    return type(obj) is list and any(map(has_big_int, obj))


def _size(data: object) -> int:
    return data.nbytes if isinstance(data, memoryview) else len(data)  # type: ignore[arg-type]
