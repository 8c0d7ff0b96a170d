"""Messages to frames and back: the only place that counts frames or slices bytes.

A message is a header frame, then the buffers of its payloads, one frame each, in the order in which
the payloads stand in the header. Whatever bytes come in, decoding either returns a valid message or
raises `ProtocolError`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from broker.wire.errors import ProtocolError
from broker.wire.messages import (
    Answers,
    Batch,
    Blob,
    Compare,
    Failure,
    FromBroker,
    Payload,
    Ref,
    RequestMeta,
    Results,
    Steps,
    Streamed,
    Submit,
    ToBroker,
    Values,
)

MAX_MESSAGE_BYTES = 1 << 30
"""No frame is longer: the sockets' MAXMSGSIZE. One client's upload is bounded far below this."""
MAX_FRAMES = 1 << 16
SUBMIT_KIND = Submit.__struct_config__.tag

Buffer: TypeAlias = bytes | bytearray | memoryview


_M = TypeVar("_M")

_encoder = msgspec.msgpack.Encoder()
_to_broker = msgspec.msgpack.Decoder(ToBroker)
_from_broker = msgspec.msgpack.Decoder(FromBroker)
_meta = msgspec.msgpack.Decoder(RequestMeta)
_META_HEAD = _encoder.encode(RequestMeta(""))[:1]  # of an array of so many fields


def encode(message: ToBroker | FromBroker) -> list[Buffer]:
    """The frames of a message. Buffers are not copied: they must not change until sent."""
    frames: list[Buffer] = [b""]
    blobs = _blobs(message)
    if not blobs:
        frames[0] = _encoder.encode(message)
        return frames
    held = [blob.buffers for blob in blobs]  # all of them first: a blob may stand there twice
    for blob, buffers in zip(blobs, held, strict=True):
        frames.extend(buffer for buffer in buffers if buffer is not None)  # type: ignore[misc]
        blob.buffers = []
    try:
        frames[0] = _encoder.encode(message)
    finally:
        for blob, buffers in zip(blobs, held, strict=True):
            blob.buffers = buffers
    return frames


def decode_to_broker(frames: Sequence[Buffer]) -> ToBroker:
    """What a gateway, worker, supervisor or command sent, or ProtocolError."""
    return _decode(_to_broker, frames)


def decode_from_broker(frames: Sequence[Buffer]) -> FromBroker:
    """What the broker sent, or ProtocolError."""
    return _decode(_from_broker, frames)


def encode_meta(meta: RequestMeta) -> bytes:
    """A RequestMeta in the form in which items carry it."""
    return _encoder.encode(meta)


def encode_nameless(meta: RequestMeta) -> bytes:
    """All of a RequestMeta but its first field, the id: what many requests may share."""
    return _encoder.encode(list(msgspec.structs.astuple(meta))[1:])[1:]  # without the array's head


def named(request_id: str, nameless: bytes) -> bytes:
    """The same as `encode_meta` of all of it, in half the time."""
    return _META_HEAD + _encoder.encode(request_id) + nameless


def decode_meta(meta: bytes) -> RequestMeta:
    """The reverse of `encode_meta`; raises ProtocolError."""
    try:
        return _meta.decode(meta)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(f"bad request meta: {error}") from None


def blob(body: bytes, buffers: Sequence[Buffer | Ref], content_type: str = "") -> Blob:
    """A payload with its buffers counted, some of which may lie in shared memory."""
    sizes = []
    held: list[object] = []
    refs: list[Ref | None] = []
    for buffer in buffers:
        if type(buffer) is Ref:
            sizes.append(buffer.length)
            held.append(None)
            refs.append(buffer)
        else:
            sizes.append(memoryview(buffer).nbytes)  # type: ignore[arg-type]
            held.append(buffer)
            refs.append(None)
    return Blob(body, sizes, content_type, held, refs if None in held else [])


def refs_of(payload: Payload | Failure | Streamed) -> list[Ref]:
    """What a payload refers to in shared memory."""
    if type(payload) is not Blob or not payload.refs:
        return []
    return [ref for ref in payload.refs if ref is not None]


def _payloads_of_items(message: Submit | Batch) -> list[Blob]:
    return [item.payload for item in message.items if type(item.payload) is Blob]


def _payloads_of_results(message: Results) -> list[Blob]:
    return [outcome for outcome in message.outcomes if type(outcome) is Blob]


def _payloads_of_answers(message: Answers) -> list[Blob]:
    return [answer.outcome for answer in message.answers if type(answer.outcome) is Blob]


def _payloads_of_steps(message: Steps) -> list[Blob]:
    return [step.outcome for step in message.steps if type(step.outcome) is Blob]


def _payloads_of_values(message: Values) -> list[Blob]:
    return [value.payload for value in message.values if type(value.payload) is Blob]


def _payloads_of_pairs(message: Compare) -> list[Blob]:
    both = (payload for pair in message.pairs for payload in (pair.stable, pair.shadow))
    return [payload for payload in both if type(payload) is Blob]


_PAYLOADS: dict[type, Callable[[Any], list[Blob]]] = {
    Submit: _payloads_of_items,
    Batch: _payloads_of_items,
    Results: _payloads_of_results,
    Answers: _payloads_of_answers,
    Steps: _payloads_of_steps,
    Values: _payloads_of_values,
    Compare: _payloads_of_pairs,
}


def _blobs(message: object) -> list[Blob]:
    """The payloads of a message that have frames of their own, in the order of those frames."""
    payloads = _PAYLOADS.get(type(message))
    return payloads(message) if payloads else []


def _decode(decoder: msgspec.msgpack.Decoder[_M], frames: Sequence[Buffer]) -> _M:
    if not 0 < len(frames) <= MAX_FRAMES:
        raise ProtocolError(f"a message of {len(frames)} frames")
    try:
        message = decoder.decode(frames[0])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(f"bad header: {error}") from None
    blobs = _blobs(message)
    if not blobs:
        if len(frames) > 1:
            raise ProtocolError(f"{len(frames) - 1} frames that no payload claims")
        return message
    start = 1
    for payload in blobs:
        if payload.refs:
            start = _fill(payload, frames, start)
            continue
        end = start + len(payload.sizes)
        payload.buffers = list(frames[start:end])
        if [memoryview(buffer).nbytes for buffer in frames[start:end]] != payload.sizes:
            raise ProtocolError("the frames of a payload are not as its header says")
        start = end
    if start != len(frames):
        raise ProtocolError(f"{len(frames) - start} frames that no payload claims")
    return message


def _fill(payload: Blob, frames: Sequence[Buffer], start: int) -> int:
    """Give a payload with references the frames of its other buffers; returns where they end."""
    if len(payload.refs) != len(payload.sizes):
        raise ProtocolError("a payload with more or fewer references than buffers")
    payload.buffers = []
    for size, ref in zip(payload.sizes, payload.refs, strict=True):
        if ref is not None:
            if min(ref.arena, ref.slot, ref.generation, ref.start, size) < 0 or ref.length != size:
                raise ProtocolError("a reference to no bytes")
            payload.buffers.append(None)
            continue
        if start >= len(frames) or memoryview(frames[start]).nbytes != size:
            raise ProtocolError("the frames of a payload are not as its header says")
        payload.buffers.append(frames[start])
        start += 1
    return start


def readable_seqs(frames: Sequence[Buffer]) -> list[int]:
    """The ids of a Submit that is otherwise no valid message, so that they can be refused."""
    try:
        kind, _epoch, items, *_ = msgspec.msgpack.decode(frames[0])
        if kind != SUBMIT_KIND:
            return []
        return [item[0] for item in items if type(item) is list and type(item[0]) is int]
    except (msgspec.MsgspecError, RecursionError, LookupError, TypeError, ValueError):
        return []
