"""Payloads to what plug-ins get, and what they return to payloads: one item at a time.

Between stages objects travel packed; at both ends of a pipeline raw bodies do. A body too large to
stand in the header of a message travels as a frame of its own, in front of the payload's others.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from broker.payload.answers import encode_all, encode_body, encode_json
from broker.payload.objects import pack
from broker.payload.signature import TensorSpec
from broker.payload.tensor_bodies import TENSORS_TYPE, pack_tensors
from broker.wire import frames
from broker.wire.messages import Blob, Payload
from workers.api import Worker
from workers.checks import Shape, is_content_type
from workers.declarations import Declaration
from workers.memory import SharedMemory

INLINE_BYTES = 4096
"""Up to here a body stands in the header: the broker copies it once more, which costs less than a
frame of its own."""

JSON = "application/json"


class Parts(NamedTuple):
    """An answer in several pieces, each of which goes out as it lies."""

    body: bytes
    buffers: list[frames.Buffer]


Encoder: TypeAlias = Callable[[Any, str], tuple[frames.Buffer | Parts, str]]
ValueEncoder: TypeAlias = Encoder
"""For the values of streams: what is no tensors is JSON, of type ""."""


def raw_body(payload: Payload, memory: SharedMemory) -> frames.Buffer:
    """The client's body in a payload of the first stage. Raises PayloadLost."""
    if isinstance(payload, bytes):
        return payload
    buffers = memory.buffers(payload)
    if not buffers:
        return payload.body
    if len(buffers) == 1 and not payload.body:
        return buffers[0]
    return b"".join((payload.body, *buffers))


def packed_parts(
    payload: Payload, memory: SharedMemory
) -> tuple[frames.Buffer, Sequence[frames.Buffer]]:
    """The body and the buffers that `pack_payload` was about. Raises PayloadLost."""
    if isinstance(payload, bytes):
        return payload, ()
    buffers = memory.buffers(payload)
    if payload.body or not buffers:
        return payload.body, buffers
    return buffers[0], buffers[1:]  # no packed object is empty, so it was too large for the header


def pack_payload(result: object, memory: SharedMemory) -> Payload:
    """A result on its way to the next stage, its large buffers in shared memory where they can be.

    Raises CannotTravel.
    """
    body, buffers = pack(result, unwritten=True)
    if len(body) > INLINE_BYTES:
        return frames.blob(b"", memory.place([body, *buffers]))
    return frames.blob(body, memory.place(buffers)) if buffers else body


def answer_payload(body: frames.Buffer | Parts, content_type: str, usual: str) -> Payload:
    """An encoded answer; plain bytes where it is small and of the batch's usual content type."""
    if isinstance(body, Parts):
        if body.buffers:
            return frames.blob(body.body, body.buffers, content_type)
        body = body.body
    if len(body) > INLINE_BYTES:
        return frames.blob(b"", [body], content_type)
    if type(body) is not bytes:
        body = bytes(body)
    return body if content_type == usual else Blob(body, [], content_type)


def answer_payloads(results: Sequence[Any]) -> list[bytes] | None:
    """The answers of a batch whose clients all get JSON, as `default_encoder` and `answer_payload`
    make them, in a tenth of the time; None where any is not small and usual.
    """
    bodies = encode_all(results)
    return bodies if bodies and max(map(len, bodies)) <= INLINE_BYTES else None


def encoder_for(plugin: Worker, shape: Shape) -> Encoder:
    """How this plug-in's results become answers: (result, accept) to (body, content type).

    The content type is "" for plain JSON.
    """
    plain = _plain_encoder_for(plugin, shape.content_type)
    return _or_tensors(plain, shape.outputs) if isinstance(shape.outputs, tuple) else plain


def _or_tensors(plain: Encoder, specs: Sequence[TensorSpec]) -> Encoder:
    """The same, for a plug-in that declares tensors: packed, where a gateway asks for that."""
    from broker.payload.tensor_arrays import parts_of_result  # noqa: PLC0415  numpy

    def encode(result: Any, accept: str) -> tuple[frames.Buffer | Parts, str]:
        if accept != TENSORS_TYPE:
            return plain(result, accept)
        return Parts(*pack_tensors(parts_of_result(result, specs))), TENSORS_TYPE

    return encode


def _plain_encoder_for(plugin: Worker, content_type: str) -> Encoder:
    if type(plugin).encode is not Worker.encode:
        encode = plugin.encode
        return lambda result, accept: _encoded(encode(result, accept), content_type)
    if content_type:
        return lambda result, accept: _as_type(result, content_type)
    return default_encoder


def value_encoder_for(
    plugin: Worker, content_type: str, outputs: Declaration = None
) -> ValueEncoder:
    """How the values of this plug-in's streams become JSON, of one line each, or tensors."""
    plain = _plain_value_encoder_for(plugin, content_type)
    return _or_tensors(plain, outputs) if isinstance(outputs, tuple) else plain


def _plain_value_encoder_for(plugin: Worker, content_type: str) -> ValueEncoder:
    if type(plugin).encode is Worker.encode:
        return lambda value, _accept: (encode_json(value), "")
    encode = plugin.encode
    return lambda value, _accept: (_as_json(*_encoded(encode(value, JSON), content_type)), "")


def _as_json(body: bytes, content_type: str) -> bytes:
    """What an `encode` of the plug-in's own made of a value: text and bytes become JSON strings.
    Raises ValueError for what it calls JSON and is none.
    """
    if not content_type:
        return msgspec.json.format(body, indent=-1)
    return encode_json(body.decode("utf-8", "replace") if content_type[:5] == "text/" else body)


def default_encoder(result: Any, accept: str) -> tuple[frames.Buffer, str]:
    """How results become answers where the plug-in has no wishes."""
    body, content_type = encode_body(result, accept)
    return body, "" if content_type == JSON else content_type


def _as_type(result: Any, content_type: str) -> tuple[frames.Buffer, str]:
    """A result under a content type that the plug-in names: text as it is, objects as JSON."""
    if isinstance(result, str) and content_type.startswith("text/"):
        return result.encode("utf-8", "replace"), content_type
    return encode_body(result, JSON)[0], content_type


def _encoded(answer: Any, content_type: str) -> tuple[bytes, str]:
    """What an `encode` of the plug-in's own returned. Raises TypeError for what is no body."""
    if isinstance(answer, tuple) and len(answer) == 2:
        body, own = answer
        if not (isinstance(own, str) and is_content_type(own)):
            raise TypeError(f"encode returned {own!r} as the content type")
        # What Worker.encode chose for itself gives way to the type that the class names.
        content_type = content_type or own
    else:
        body = answer
    if isinstance(body, str):
        return body.encode("utf-8", "replace"), content_type or "text/plain; charset=utf-8"
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"encode returned {type(body).__name__}, which is neither bytes nor str")
    content_type = content_type or "application/octet-stream"
    return bytes(body), "" if content_type == JSON else content_type
