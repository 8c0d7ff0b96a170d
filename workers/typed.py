"""Bodies of plug-ins that declare what they take: checked, and made arrays or objects of.

The counterpart of `outcomes.py` at the entrance. Tensors come packed from a gateway that speaks a
protocol of tensors, or in JSON and msgpack from clients themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from broker.payload.bodies import decode_body
from broker.payload.errors import BadBody, BadPayload, Mismatch, UnsupportedType
from broker.payload.limits import MAX_DEPTH
from broker.payload.media_types import MSGPACK_TYPES, parse_media_type
from broker.payload.signature import TensorSpec
from broker.payload.tensor_bodies import unpack_tensors
from broker.wire.frames import Buffer
from broker.wire.messages import Payload
from workers.declarations import Declaration
from workers.memory import SharedMemory
from workers.outcomes import packed_parts

Decoder: TypeAlias = Callable[[Buffer, str], Any]
"""(body, content type) to what `forward` is given."""
TensorDecoder: TypeAlias = Callable[[Payload, SharedMemory], Any]

# Proves that every length in the body is honest, before a list is made as long as its header says.
_skim = msgspec.msgpack.Decoder(msgspec.Raw).decode


def decoder_for(inputs: Declaration) -> Decoder:
    """How bodies of JSON and msgpack are read where these inputs are declared.

    What it gives raises BadBody for what is no JSON or msgpack, Mismatch, with the path, for what
    does not fit the declaration, and UnsupportedType for other media types.
    """
    return _arrays(inputs) if isinstance(inputs, tuple) else _objects(inputs)


def tensor_decoder_for(inputs: Declaration) -> TensorDecoder | None:
    """How payloads of packed tensors are read; None where no tensors are declared."""
    if not isinstance(inputs, tuple):
        return None
    from broker.payload import tensor_arrays  # noqa: PLC0415  numpy, only for who declares tensors

    def decode(payload: Payload, memory: SharedMemory) -> Any:
        try:
            parts = unpack_tensors(*packed_parts(payload, memory))
            return tensor_arrays.arrays_of_parts(parts, inputs)
        except (BadPayload, Mismatch) as error:
            raise BadBody(str(error)) from None

    return decode


def _arrays(specs: Sequence[TensorSpec]) -> Decoder:
    from broker.payload import tensor_arrays  # noqa: PLC0415

    def decode(body: Buffer, content_type: str) -> Any:
        _format_of(content_type)
        return tensor_arrays.arrays_of_object(decode_body(body, content_type), specs)

    return decode


def _objects(kind: Any) -> Decoder:
    decoders = {
        "json": msgspec.json.Decoder(kind).decode,
        "msgpack": msgspec.msgpack.Decoder(kind).decode,
    }

    def decode(body: Buffer, content_type: str) -> Any:
        name = _format_of(content_type)
        try:
            if name == "msgpack":
                _skim(body)
            return decoders[name](body)
        except msgspec.ValidationError as error:
            raise Mismatch(str(error)) from None
        except RecursionError:
            raise BadBody(f"more than {MAX_DEPTH} levels of nesting") from None
        except (ValueError, TypeError, OverflowError) as error:
            decode_body(body, content_type)  # says what is wrong with it in more words
            raise BadBody(f"{name}: {error}") from None

    return decode


def _format_of(content_type: str) -> str:
    """json or msgpack; raises UnsupportedType."""
    if not content_type.strip():
        return "json"
    kind, _ = parse_media_type(content_type)
    if kind == "application/json" or kind.endswith("+json"):
        return "json"
    if kind in MSGPACK_TYPES:
        return "msgpack"
    raise UnsupportedType(f"this pipeline takes JSON or msgpack, not {kind[:100]}")
