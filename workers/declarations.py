"""What a plug-in declares of its inputs and outputs, checked, and as the signature that travels."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from broker.payload.datatypes import DATATYPES
from broker.payload.signature import MAX_AXES, Declared, Signature, TensorSpec
from workers.api import Tensor

Declaration: TypeAlias = Any
"""None, a tuple of `TensorSpec`, or a type that msgspec can check objects against."""

MAX_TENSORS = 256
MAX_NAME_CHARS = 255
MAX_SCHEMA_BYTES = 30_000
"""Of each side, so that both fit into a HELLO."""


class BadDeclaration(Exception):
    """`inputs` or `outputs` are none; the message says why, in one line."""


def declaration_of(declared: object, side: str) -> Declaration:
    """The `inputs` or `outputs` of a plug-in, which `side` names. Raises BadDeclaration."""
    if declared is None:
        return None
    if isinstance(declared, dict):
        if not 0 < len(declared) <= MAX_TENSORS:
            raise BadDeclaration(f"{side} = {{…}} must name 1 to {MAX_TENSORS} tensors")
        return tuple(_spec(name, tensor, side) for name, tensor in declared.items())
    if isinstance(declared, Tensor):
        raise BadDeclaration(f'{side} must be a dict: give the Tensor a name, as in {{"x": …}}')
    if len(_schema(declared, side)) > MAX_SCHEMA_BYTES:
        raise BadDeclaration(f"{side}: the JSON schema is longer than {MAX_SCHEMA_BYTES} bytes")
    return declared


def signature_of(inputs: Declaration, outputs: Declaration) -> Signature:
    """Both together, as `declaration_of` has returned them."""
    return Signature(_declared(inputs, "inputs"), _declared(outputs, "outputs"))


def _declared(declaration: Declaration, side: str) -> Declared:
    if declaration is None:
        return Declared()
    if isinstance(declaration, tuple):
        return Declared(list(declaration))
    return Declared(schema=_schema(declaration, side))


def _schema(declared: object, side: str) -> bytes:
    try:
        msgspec.json.Decoder(declared)
        return msgspec.json.encode(msgspec.json.schema(declared))
    except (TypeError, ValueError, NameError) as error:
        why = " ".join(str(error).split())
        raise BadDeclaration(
            f"{side} must be a dict of millstream.Tensor by name, or a type that msgspec can "
            f"check objects against: {why}"
        ) from None


def _spec(name: object, tensor: object, side: str) -> TensorSpec:
    if not (isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS and name.isprintable()):
        raise BadDeclaration(f"{side}: {name!r:.80} is no name of a tensor")
    if not isinstance(tensor, Tensor):
        raise BadDeclaration(f"{side}[{name!r}] must be a millstream.Tensor, not {tensor!r:.80}")
    if tensor.datatype not in DATATYPES:
        raise BadDeclaration(
            f"{side}[{name!r}]: {tensor.datatype!r} is no datatype; known: {', '.join(DATATYPES)}"
        )
    shape: object = tensor.shape
    if (
        not isinstance(shape, Sequence)
        or len(shape) > MAX_AXES
        or not all(type(length) is int and -1 <= length < 1 << 40 for length in shape)
    ):
        raise BadDeclaration(
            f"{side}[{name!r}]: a shape is a list of lengths, -1 for any; not {shape!r:.80}"
        )
    return TensorSpec(name, tensor.datatype, tuple(shape))
