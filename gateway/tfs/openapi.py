"""What the OpenAPI document says of a model's paths below /v1. Pure."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from broker.payload.signature import CLASSIFY, DEFAULT_SIGNATURE, Declared, TensorSpec
from gateway.catalog import PipelineView
from gateway.components import STRING, Object, record
from gateway.schemas import tensor_schema

_STATE = record({"version": STRING, "state": STRING, "status": {"type": "object"}})
_STATES: Object = {"type": "array", "items": _STATE}
_BYTES: Object = {
    "anyOf": [STRING, record({"b64": {"type": "string", "contentEncoding": "base64"}})],
}


class Operation(NamedTuple):
    """What is at one path: a POST where it takes something, else a GET."""

    name: str
    summary: str
    given: Object
    taken: Object | None = None


def operations(view: PipelineView) -> dict[str, Operation]:
    """By path, for a pipeline that these protocols can be spoken with; else there is none."""
    if view.lack_of_tensors() is not None:
        return {}
    path = f"/v1/models/{quote(view.name, safe='')}"
    state = record({"name": STRING, "ready": {"type": "boolean"}, "model_version_status": _STATES})
    metadata = record({"model_spec": {"type": "object"}, "metadata": {"type": "object"}})
    found = {
        path: Operation("state", f"State of {view.name}, for TensorFlow Serving and KServe", state),
        f"{path}/metadata": Operation("metadata", f"Signatures of {view.name}", metadata),
        f"{path}:predict": Operation(
            "predict",
            f"Run {view.name}, for TensorFlow Serving and KServe",
            _predictions(view.outputs),
            _instances(view.inputs),
        ),
    }
    for kind in sorted({method.kind for method in view.methods}):
        result: Object = {"type": "number"}
        if kind == CLASSIFY:
            result = {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2}}
        found[f"{path}:{kind}"] = Operation(
            kind,
            f"Run {view.name}, for TensorFlow Serving: {kind}",
            record({"results": {"type": "array", "items": result}}),
            _examples(view, kind),
        )
    return found


def _instances(declared: Declared) -> Object:
    columns = record({spec.name: _tensor(spec, spec.shape) for spec in declared.tensors})
    forms = [record({"inputs": columns}, signature_name={"const": DEFAULT_SIGNATURE})]
    if all(spec.shape for spec in declared.tensors):
        rows = {"type": "array", "items": _row(declared), "minItems": 1}
        forms.append(record({"instances": rows}, signature_name={"const": DEFAULT_SIGNATURE}))
    return {"oneOf": forms}


def _predictions(declared: Declared) -> Object:
    columns: Object = {spec.name: _tensor(spec, spec.shape) for spec in declared.tensors}
    rows: Object = {spec.name: _tensor(spec, spec.shape[1:]) for spec in declared.tensors}
    column, row = record(columns), record(rows)
    if len(declared.tensors) == 1:
        (column,), (row,) = columns.values(), rows.values()
    in_rows = {"type": "array", "items": row}
    return {"oneOf": [record({"outputs": column}), record({"predictions": in_rows})]}


def _examples(view: PipelineView, kind: str) -> Object:
    names = [method.name for method in view.methods if method.kind == kind]
    examples = {"type": "array", "items": _row(view.inputs), "minItems": 1}
    named = {"type": "string", "enum": [DEFAULT_SIGNATURE, *names]}
    return record({"examples": examples}, signature_name=named)


def _row(declared: Declared) -> Object:
    return record({spec.name: _tensor(spec, spec.shape[1:]) for spec in declared.tensors})


def _tensor(spec: TensorSpec, shape: Sequence[int]) -> Object:
    element = _BYTES if spec.datatype == "BYTES" else None
    return tensor_schema(spec.datatype, shape, element=element)
