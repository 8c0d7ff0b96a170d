"""Results to answers: JSON, and behind it the raw values of those outputs that are wanted so.

Pure. Raw values go out as they came, without a copy.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from broker.payload.media_types import BYTES_TYPE, JSON_TYPE
from broker.payload.nested import unpack_elements
from broker.payload.tensor_bodies import Buffer, TensorPart
from gateway.dialect import BadRequest
from gateway.oip.inference import Inference

_encode = msgspec.json.Encoder().encode


class Written(Struct, frozen=True):
    """An answer: its body in pieces. `json_bytes` is the length of the first, 0 where it is all."""

    pieces: list[Buffer]
    content_type: str
    json_bytes: int = 0


def write_answer(
    inference: Inference, parts: Sequence[TensorPart], *, model: str, version: str
) -> Written:
    """The answer with those outputs that were asked for, in that order.

    Raises BadRequest where one cannot be written as JSON, and KeyError where it is not there.
    """
    by_name = {part.name: part for part in parts}
    outputs: list[dict[str, Any]] = []
    raw: list[Buffer] = []
    for wanted in inference.outputs:
        part = by_name[wanted.name]
        output: dict[str, Any] = {"name": part.name, "datatype": part.datatype, "shape": part.shape}
        data = part.data or b""
        if wanted.is_binary:
            output["parameters"] = {"binary_data_size": part.size_bytes}
            raw.append(data)
        else:
            output["data"] = _elements(part.name, part.datatype, data)
        outputs.append(output)
    document: dict[str, Any] = {"model_name": model, "model_version": version}
    if inference.id is not None:
        document["id"] = inference.id
    document["outputs"] = outputs
    text = _encode(document)
    if not raw:
        return Written([text], JSON_TYPE)
    return Written([text, *raw], BYTES_TYPE, len(text))


def _elements(name: str, datatype: str, data: Buffer) -> list[Any]:
    try:
        return unpack_elements(memoryview(data), datatype)
    except UnicodeDecodeError:
        raise BadRequest(
            f"output {name!r} holds bytes that are no UTF-8: ask for it with binary_data"
        ) from None
