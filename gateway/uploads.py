"""The tensors of one request as a payload: views of the body, in shared memory where it is large.

The one place where a body's bytes are told apart without being copied.
"""

from collections.abc import Sequence

from broker.payload.arena import ARENA_BYTES
from broker.payload.tensor_bodies import INLINE_BYTES, Buffer, TensorPart, pack_tensors
from broker.wire import frames
from broker.wire.messages import Payload, Ref
from gateway.dialect import Input
from gateway.memory import Stored, UploadMemory

ALIGNMENT = 64
"""Where raw tensors begin, in shared memory, is a multiple of this, whatever stands before them."""


def lead_bytes(head_bytes: int) -> int:
    """How much room to leave before a body, for what follows its head to be aligned."""
    return -head_bytes % ALIGNMENT


def tensor_payload(
    inputs: Sequence[Input],
    body: Buffer,
    stored: Stored | None,
    memory: UploadMemory,
    names: bytes = b"",
) -> Payload:
    """The payload for a request's tensors. `stored`, where the body lies in shared memory, is taken
    over: dropped, or referred to by the payload.

    `names` is what `pack_names` makes of inputs that are large and all in the body, where that is
    known already.
    """
    if names and stored is not None:
        return frames.blob(names, _refs(stored.ref, inputs, [each.start for each in inputs]))
    views = [_view(each, body) for each in inputs]
    parts = [
        TensorPart(each.name, each.datatype, each.shape, view)
        for each, view in zip(inputs, views, strict=True)
    ]
    size_bytes = sum(each.size_bytes for each in inputs)
    if size_bytes <= INLINE_BYTES:
        packed, _ = pack_tensors(parts)
        _drop(stored, memory)
        return packed
    head, buffers = pack_tensors(parts)
    if any(each.data is not None for each in inputs):  # references and bytes are not mixed
        buffers = [bytes(buffer) for buffer in buffers]
        _drop(stored, memory)
        return frames.blob(head, buffers)
    if stored is not None:
        starts = [each.start for each in inputs]
    else:
        starts = _aligned(buffers)
        stored = memory.gather(buffers, starts) if size_bytes >= ARENA_BYTES else None
    if stored is None:
        return frames.blob(head, buffers)
    return frames.blob(head, _refs(stored.ref, inputs, starts))


def _refs(whole: Ref, inputs: Sequence[Input], starts: Sequence[int]) -> list[Buffer | Ref]:
    """To the inputs, which begin there within `whole`."""
    return [
        Ref(whole.arena, whole.slot, whole.generation, whole.start + start, each.size_bytes)
        for start, each in zip(starts, inputs, strict=True)
    ]


def _aligned(buffers: Sequence[Buffer]) -> list[int]:
    """Where each is to begin, one after the other."""
    starts = []
    at = 0
    for buffer in buffers:
        starts.append(at)
        at += memoryview(buffer).nbytes
        at += -at % ALIGNMENT
    return starts


def _view(each: Input, body: Buffer) -> Buffer:
    return memoryview(body)[each.start : each.end] if each.data is None else each.data


def _drop(stored: Stored | None, memory: UploadMemory) -> None:
    if stored is not None:
        memory.drop([stored.ref])
