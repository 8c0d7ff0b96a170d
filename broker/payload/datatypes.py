"""The datatypes of tensors, by the names that the Open Inference Protocol has for them.

Values lie little-endian, in row-major order, without padding. Elements of BYTES vary in length:
each is its length, as 4 bytes, and then so many bytes.
"""

from typing import NamedTuple


class Datatype(NamedTuple):
    """How values of one datatype lie in memory, and what they are in Python."""

    size_bytes: int
    """Of one element; 0 where that varies."""
    code: str
    """The element for `struct`, and for numpy behind a `<`; "" where neither has it."""
    python: frozenset[type]
    """The types that its elements have in JSON and msgpack."""


_INTEGERS = frozenset((int,))
_NUMBERS = frozenset((int, float))

DATATYPES = {
    "BOOL": Datatype(1, "?", frozenset((bool,))),
    "UINT8": Datatype(1, "B", _INTEGERS),
    "UINT16": Datatype(2, "H", _INTEGERS),
    "UINT32": Datatype(4, "I", _INTEGERS),
    "UINT64": Datatype(8, "Q", _INTEGERS),
    "INT8": Datatype(1, "b", _INTEGERS),
    "INT16": Datatype(2, "h", _INTEGERS),
    "INT32": Datatype(4, "i", _INTEGERS),
    "INT64": Datatype(8, "q", _INTEGERS),
    "FP16": Datatype(2, "e", _NUMBERS),
    "BF16": Datatype(2, "", _NUMBERS),  # the upper half of an FP32
    "FP32": Datatype(4, "f", _NUMBERS),
    "FP64": Datatype(8, "d", _NUMBERS),
    "BYTES": Datatype(0, "", frozenset((str, bytes))),
}
FLOATS = frozenset(name for name, kind in DATATYPES.items() if float in kind.python)
