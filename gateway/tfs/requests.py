"""Bodies for prediction to tensors: in rows (`instances`) or in columns (`inputs`).

Pure. Whatever the bytes are, the outcome is a list of inputs or a `BadRequest` or `Mismatch` that
names the fault and its place, and what is allocated on the way is bounded by the body.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import UNSET, Struct, UnsetType

from broker.payload.errors import Mismatch
from broker.payload.nested import flatten, kind_of, pack_elements
from broker.payload.signature import DEFAULT_SIGNATURE, Declared, TensorSpec
from gateway.dialect import BadRequest, Input
from gateway.tfs.base64_objects import decode_all, is_base64


class Request(Struct):
    """A body. Other fields are passed over, as TensorFlow Serving does."""

    signature_name: str | UnsetType = UNSET
    instances: Any = UNSET
    inputs: Any = UNSET
    examples: Any = UNSET
    context: Any = UNSET


def read_tensors(request: Request, declared: Declared) -> list[Input]:
    """The inputs of a request for prediction, which is in rows where it has `instances`."""
    name = request.signature_name or DEFAULT_SIGNATURE
    if name not in (UNSET, DEFAULT_SIGNATURE):
        raise BadRequest(f"there is no signature {name!r:.100} for predict: {DEFAULT_SIGNATURE}")
    if (request.instances is UNSET) == (request.inputs is UNSET):
        raise BadRequest("the request must have either `instances` or `inputs`, one of the two")
    if request.inputs is not UNSET:
        return _columns(request.inputs, declared)
    if type(request.instances) is not list:
        raise Mismatch(f"expected an array, got {kind_of(request.instances)} - at `$.instances`")
    if not request.instances:
        raise Mismatch("expected one instance at least - at `$.instances`")
    return _rows(request.instances, declared)


def tensor(
    spec: TensorSpec, value: object, shape: Sequence[int], path: str, *, may_be_flat: bool = False
) -> Input:
    """A value of this shape, in which -1 stands for any length; see `flatten`. Raises Mismatch."""
    elements, found = flatten(value, shape, path, may_be_flat=may_be_flat)
    if spec.datatype == "BYTES" and dict in set(map(type, elements)):
        elements = decode_all(elements, found, path)
    try:
        data = pack_elements(elements, spec.datatype, found, path)
    except UnicodeEncodeError:
        raise Mismatch(f"text that holds half of a surrogate pair - at `{path}`") from None
    return Input(spec.name, spec.datatype, found, data)


def check_names(given: dict[str, Any], declared: Declared, path: str) -> None:
    """Raises Mismatch where these are not the declared inputs."""
    for spec in declared.tensors:
        if spec.name not in given:
            raise Mismatch(f"the input {spec.name!r} is missing - at `{path}`")
    if len(given) > len(declared.tensors):
        name = next(name for name in given if declared.spec(name) is None)
        raise Mismatch(
            f"there is no input {name!r:.100}; declared: {declared.names()} - at `{path}`"
        )


# ------------------------------------------------------------------ columns


def _columns(inputs: object, declared: Declared) -> list[Input]:
    if isinstance(inputs, dict) and not is_base64(inputs):
        check_names(inputs, declared, "$.inputs")
        return [
            tensor(spec, inputs[spec.name], spec.shape, f"$.inputs.{spec.name}")
            for spec in declared.tensors
        ]
    spec = _only(declared, "inputs")
    return [tensor(spec, inputs, spec.shape, "$.inputs")]


def _only(declared: Declared, field: str) -> TensorSpec:
    if len(declared.tensors) != 1:
        raise Mismatch(
            f"expected objects by the names of the inputs, {declared.names()} - at `$.{field}`"
        )
    return declared.tensors[0]


# ------------------------------------------------------------------ rows


def _rows(rows: list[Any], declared: Declared) -> list[Input]:
    for spec in declared.tensors:
        if not spec.shape:
            raise BadRequest(f"the input {spec.name!r} is one value for all: send it in `inputs`")
    if type(rows[0]) is not dict or is_base64(rows[0]):
        spec = _only(declared, "instances")
        return [tensor(spec, rows, spec.shape, "$.instances")]
    names = {spec.name for spec in declared.tensors}
    for number, row in enumerate(rows):
        if type(row) is not dict:
            raise Mismatch(f"expected an object, got {kind_of(row)} - at `$.instances[{number}]`")
        if row.keys() != names:
            check_names(row, declared, f"$.instances[{number}]")
    return [_column(spec, [row[spec.name] for row in rows]) for spec in declared.tensors]


def _column(spec: TensorSpec, values: list[Any]) -> Input:
    try:
        return tensor(spec, values, spec.shape, "$.instances")
    except Mismatch as error:
        _refuse_column(spec, values, error)


def _refuse_column(spec: TensorSpec, values: list[Any], error: Mismatch) -> NoReturn:
    """The same fault with its place in the rows, which have other inputs, too."""
    shape: Sequence[int] = spec.shape[1:]
    for number, value in enumerate(values):
        shape = tensor(spec, value, shape, f"$.instances[{number}].{spec.name}").shape
    raise error  # it is about how many there are
