"""Bodies for classification and regression, which have features by name, to tensors. Pure."""

from typing import Any

from msgspec import UNSET

from broker.payload.errors import Mismatch
from broker.payload.nested import kind_of
from broker.payload.signature import DEFAULT_SIGNATURE, Declared, Method, TensorSpec
from gateway.dialect import BadRequest, Input
from gateway.tfs.requests import Request, check_names, tensor


def find_method(request: Request, kind: str, methods: list[Method], model: str) -> Method:
    """The signature that a request names, or the first of its kind. Raises BadRequest."""
    found = [method for method in methods if method.kind == kind]
    if not found:
        raise BadRequest(f"pipeline {model!r} has no signature for {kind} in its last stage")
    name = request.signature_name
    if name in (UNSET, "", DEFAULT_SIGNATURE):
        return found[0]
    for method in found:
        if method.name == name:
            return method
    known = ", ".join(method.name for method in found)
    raise BadRequest(f"there is no signature {name!r:.100} for {kind}; declared: {known}")


def read_examples(request: Request, declared: Declared) -> list[Input]:
    """The inputs: one row for each example, which is completed by the context."""
    context = {} if request.context is UNSET else request.context
    if type(context) is not dict:
        raise Mismatch(f"expected an object, got {kind_of(context)} - at `$.context`")
    if request.examples is UNSET:
        raise BadRequest("the request has no `examples`")
    if type(request.examples) is not list:
        raise Mismatch(f"expected an array, got {kind_of(request.examples)} - at `$.examples`")
    if not request.examples:
        raise Mismatch("expected one example at least - at `$.examples`")
    whole = [_completed(each, context, n) for n, each in enumerate(request.examples)]
    for number, example in enumerate(whole):
        check_names(example, declared, f"$.examples[{number}]")
    return [_column(spec, [example[spec.name] for example in whole]) for spec in declared.tensors]


def _completed(example: object, context: dict[str, Any], number: int) -> dict[str, Any]:
    path = f"$.examples[{number}]"
    if not isinstance(example, dict):
        raise Mismatch(f"expected an object, got {kind_of(example)} - at `{path}`")
    twice = next((name for name in example if name in context), None)
    if twice is not None:
        raise Mismatch(f"the feature {twice!r:.100} is in the context, too - at `{path}`")
    return {**context, **example}


def _column(spec: TensorSpec, features: list[Any]) -> Input:
    """The features of one name: a value each, or a list of them, flat or nested as is declared."""
    if not spec.shape:
        raise BadRequest(f"the input {spec.name!r} is one value for all: examples cannot give it")
    shape = list(spec.shape[1:])
    rows = []
    for number, feature in enumerate(features):
        path = f"$.examples[{number}].{spec.name}"
        value = [feature] if shape and type(feature) is not list else feature
        row = tensor(spec, value, shape, path, may_be_flat=True)
        shape = row.shape
        rows.append(row.data or b"")
    found = [len(rows), *shape]
    spec.check_shape(found)
    return Input(spec.name, spec.datatype, found, b"".join(rows))
