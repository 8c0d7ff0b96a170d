"""Tensors on their way between a gateway and the ends of a pipeline: names, shapes and raw values.

Values stay as they are in the binary form of the Open Inference Protocol, and lie out of band where
they are large: so a client's tensor goes on as a view of what was received. A payload is a msgpack
list of `TensorPart`s; where `data` is missing, it is the next of the payload's buffers.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import BadPayload

TENSORS_TYPE = "application/vnd.millstream.tensors"
INLINE_BYTES = 4096
"""Values up to this size, of all tensors together, stay in the list itself."""

Buffer: TypeAlias = bytes | bytearray | memoryview


class TensorPart(Struct, array_like=True):
    """One tensor."""

    name: str
    datatype: str
    shape: list[int]
    data: Buffer | None = None

    @property
    def size_bytes(self) -> int:
        """Of its values."""
        return memoryview(self.data).nbytes if self.data is not None else 0


class _Received(Struct, array_like=True):
    name: str
    datatype: str
    shape: list[int]
    data: bytes | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Received])
# Proves that every length in the body is honest, before a list is made as long as its header says.
_skim = msgspec.msgpack.Decoder(msgspec.Raw).decode


def pack_tensors(parts: Sequence[TensorPart]) -> tuple[bytes, list[Buffer]]:
    """The list, and the buffers beside it, which are the parts' own data. Each part has some."""
    if sum(part.size_bytes for part in parts) <= INLINE_BYTES:
        return _encoder.encode(parts), []
    return pack_names(parts), [part.data for part in parts if part.data is not None]


def pack_names(parts: Sequence[TensorPart]) -> bytes:
    """The list alone, of parts whose data all lie beside it."""
    return _encoder.encode([TensorPart(part.name, part.datatype, part.shape) for part in parts])


def unpack_tensors(body: Buffer, buffers: Sequence[Buffer] = ()) -> list[TensorPart]:
    """The tensors that `pack_tensors` was given. Raises BadPayload for anything else."""
    try:
        _skim(body)
        received = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadPayload(f"no tensors: {error}") from None
    missing = 0
    parts = []
    for part in received:
        if part.datatype not in DATATYPES:
            raise BadPayload(f"no datatype: {part.datatype[:40]!r}")
        data: Buffer | None = part.data
        if data is None:
            data = buffers[missing] if missing < len(buffers) else b""
            missing += 1
        parts.append(TensorPart(part.name, part.datatype, part.shape, data))
    if missing != len(buffers):
        raise BadPayload(f"{missing} tensors came with {len(buffers)} buffers")
    return parts
