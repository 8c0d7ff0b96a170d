"""Messages with raw tensors, taken apart and put together without a copy of those.

protobuf copies every field of bytes when it reads a message, again when the field is looked at, and
twice more when one is written. Raw tensors are nearly all of a message, and lie in fields of its
own level (`raw_input_contents`, `raw_output_contents`): so they are found here as stretches of the
message as it came, and protobuf reads and writes the rest. Encoding: protobuf.dev, "Encoding".
"""

from collections.abc import Sequence
from typing import NamedTuple

from broker.payload.tensor_bodies import Buffer
from gateway.dialect import BadRequest

MAX_FIELDS = 1 << 14
"""Of one message: to look at each of millions would take seconds."""

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_RAW_INPUT = 7 << 3 | _LENGTH
_RAW_OUTPUT = bytes([6 << 3 | _LENGTH])
_INFER_RESPONSE = bytes([2 << 3 | _LENGTH])


class Split(NamedTuple):
    """A ModelInferRequest: all but its raw tensors, and where in the message those lie."""

    head: bytes
    raw: list[tuple[int, int]]


def split(message: bytes) -> Split:
    """Raises BadRequest for what is no message."""
    kept: list[bytes] = []
    raw: list[tuple[int, int]] = []
    at = start = 0
    try:
        for _ in range(MAX_FIELDS):
            if at == len(message):
                kept.append(message[start:at])
                return Split(b"".join(kept), raw)
            tag, value = _varint(message, at)
            begin, end = _extent(message, value, tag & 7)
            if tag == _RAW_INPUT:
                kept.append(message[start:at])
                raw.append((begin, end))
                start = end
            at = end
    except IndexError:
        raise BadRequest("the message is cut off") from None
    raise BadRequest(f"a request of more than {MAX_FIELDS} parts")


def _extent(message: bytes, at: int, wire_type: int) -> tuple[int, int]:
    """Where a field's value begins and ends. Raises IndexError where the message ends first."""
    if wire_type == _LENGTH:
        length, at = _varint(message, at)
        end = at + length
    elif wire_type == _VARINT:
        _, end = _varint(message, at)
    elif wire_type == _EIGHT_BYTES:
        end = at + 8
    elif wire_type == _FOUR_BYTES:
        end = at + 4
    else:
        raise BadRequest(f"the message has a field of wire type {wire_type}")
    if end > len(message):
        raise IndexError
    return at, end


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends. Raises IndexError where the message ends first."""
    value = message[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in range(7, 70, 7):
        at += 1
        byte = message[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise BadRequest("the message has a number of more than 10 bytes")


def with_raw(head: bytes, raw: Sequence[Buffer]) -> list[Buffer]:
    """A ModelInferResponse in pieces: `head` is the message without raw tensors."""
    pieces: list[Buffer] = [head]
    for each in raw:
        pieces += (_RAW_OUTPUT + _packed(memoryview(each).nbytes), each)
    return pieces


def on_stream(pieces: Sequence[Buffer]) -> list[Buffer]:
    """A ModelStreamInferResponse with that ModelInferResponse in it."""
    size_bytes = sum(memoryview(piece).nbytes for piece in pieces)
    return [_INFER_RESPONSE + _packed(size_bytes), *pieces]


def _packed(number: int) -> bytes:
    packed = bytearray()
    while number > 0x7F:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)
