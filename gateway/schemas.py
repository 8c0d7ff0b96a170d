"""What a plug-in declares of its inputs and outputs, as JSON schemas. Pure.

The declaration travels with the catalog, opaque to the broker: tensors by name, with datatype and
shape, or else a schema of objects that is one already. What cannot be read declares nothing.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from broker.payload.datatypes import FLOATS
from broker.payload.signature import Declared, decode_signature
from broker.wire.messages import StageInfo

_KINDS = {**dict.fromkeys(FLOATS, "number"), "BOOL": "boolean", "BYTES": "string"}


def input_schema(first: StageInfo) -> dict[str, Any]:
    """Of a request in JSON; `{}`, which is any value, where nothing is declared."""
    return _schema(decode_signature(first.signature).inputs, nullable=False)


def output_schema(last: StageInfo) -> dict[str, Any]:
    """Of an answer in JSON, in which a number that JSON lacks is null; `{}` likewise."""
    outputs = decode_signature(last.signature).outputs
    schema = _schema(outputs, nullable=True)
    if len(outputs.tensors) == 1:  # which a plug-in may give without its name
        (alone,) = schema["properties"].values()
        return {"anyOf": [schema, alone]}
    return schema


def tensor_schema(
    datatype: str,
    shape: Sequence[int],
    *,
    nullable: bool = False,
    element: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Nested lists; -1 in the shape stands for any length. `element`, where it is other than JSON
    has it otherwise."""
    kind = _KINDS.get(datatype, "integer")
    may_be_null = nullable and kind == "number"
    schema: dict[str, Any] = element or {"type": [kind, "null"] if may_be_null else kind}
    for length in reversed(shape):
        schema = {"type": "array", "items": schema}
        if length >= 0:
            schema |= {"minItems": length, "maxItems": length}
    return schema | {"description": f"{datatype} {list(shape)}"}


def _schema(side: Declared, *, nullable: bool) -> dict[str, Any]:
    if side.schema:
        try:
            return msgspec.json.decode(side.schema, type=dict[str, Any])
        except msgspec.MsgspecError:
            return {}
    if not side.tensors:
        return {}
    return {
        "type": "object",
        "properties": {
            each.name: tensor_schema(each.datatype, each.shape, nullable=nullable)
            for each in side.tensors
        },
        "required": [each.name for each in side.tensors],
    }
