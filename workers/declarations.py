"""What a plug-in declares of its inputs, outputs and signatures, checked, and as it travels."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard

import msgspec

from broker.payload.datatypes import DATATYPES, FLOATS
from broker.payload.signature import (
    CLASSIFY,
    DEFAULT_SIGNATURE,
    MAX_AXES,
    REGRESS,
    Declared,
    Method,
    Signature,
    TensorSpec,
)
from workers.api import Classify, Regress, Tensor

Declaration: TypeAlias = Any
"""None, a tuple of `TensorSpec`, or a type that msgspec can check objects against."""

MAX_TENSORS = 256
MAX_NAME_CHARS = 255
MAX_SCHEMA_BYTES = 30_000
"""Of each side, so that both fit into a HELLO."""
MAX_SIGNATURE_BYTES = 1 << 16
"""Of all together: what a HELLO has room for."""


class BadDeclaration(Exception):
    """`inputs`, `outputs` or `signatures` are none; the message says why, in one line."""


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


def methods_of(declared: object, outputs: Declaration) -> list[Method]:
    """The `signatures` of a plug-in that declares these outputs. Raises BadDeclaration."""
    if declared is None:
        return []
    if not isinstance(declared, dict) or not 0 < len(declared) <= MAX_TENSORS:
        raise BadDeclaration("signatures must be a dict of Classify and Regress by name")
    if not isinstance(outputs, tuple):
        raise BadDeclaration("signatures need outputs = {…} of tensors")
    specs = {spec.name: spec for spec in outputs}
    return [_method(name, method, specs) for name, method in declared.items()]


def signature_of(
    inputs: Declaration,
    outputs: Declaration,
    methods: Sequence[Method] = (),
    *,
    streams: bool = False,
) -> Signature:
    """All together, as `declaration_of` and `methods_of` have returned them."""
    sides = _declared(inputs, "inputs"), _declared(outputs, "outputs")
    return Signature(*sides, list(methods), streams)


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


def _is_name(name: object) -> TypeGuard[str]:
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS and name.isprintable()


def _spec(name: object, tensor: object, side: str) -> TensorSpec:
    if not _is_name(name):
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


def _method(name: object, method: object, outputs: dict[str, TensorSpec]) -> Method:
    what = f"signatures[{name!r:.80}]"
    if not _is_name(name):
        raise BadDeclaration(f"{what}: that is no name of a signature")
    if name == DEFAULT_SIGNATURE:
        raise BadDeclaration(f"{what}: that name is for the outputs as they are")
    if isinstance(method, Regress):
        spec = _output(method.values, outputs, what)
        is_column = len(spec.shape) == 1 or (len(spec.shape) == 2 and spec.shape[1] == 1)
        if not is_column or spec.datatype in ("BOOL", "BYTES"):
            raise BadDeclaration(f"{what}: {spec.name!r} must be one number for each example")
        return Method(name, REGRESS, spec.name)
    if not isinstance(method, Classify):
        raise BadDeclaration(f"{what} must be a millstream.Classify or Regress, not {method!r:.80}")
    scores = _output(method.scores, outputs, what)
    if len(scores.shape) != 2 or scores.datatype not in FLOATS:
        raise BadDeclaration(f"{what}: {scores.name!r} must be floats of shape [examples, classes]")
    if isinstance(method.labels, str):
        labels = _output(method.labels, outputs, what)
        if labels.datatype != "BYTES" or labels.shape != scores.shape:
            raise BadDeclaration(
                f"{what}: {labels.name!r} must be BYTES of shape {list(scores.shape)}"
            )
        return Method(name, CLASSIFY, scores.name, classes=labels.name)
    return Method(name, CLASSIFY, scores.name, labels=_labels(method.labels, scores, what))


def _output(name: object, outputs: dict[str, TensorSpec], what: str) -> TensorSpec:
    if not isinstance(name, str) or name not in outputs:
        raise BadDeclaration(f"{what}: {name!r:.80} is none of the outputs {list(outputs)}")
    return outputs[name]


def _labels(labels: object, scores: TensorSpec, what: str) -> list[str]:
    if not isinstance(labels, Sequence) or not all(isinstance(label, str) for label in labels):
        raise BadDeclaration(f"{what}: labels are a list of texts, or the name of an output")
    if labels and scores.shape[1] not in (-1, len(labels)):
        raise BadDeclaration(
            f"{what}: {len(labels)} labels are not as many as {scores.name!r} has classes, "
            f"{scores.shape[1]}"
        )
    return list(labels)
