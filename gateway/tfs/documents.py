"""What is served, as these protocols say it: models, their state, their metadata.

Pure: reads the gateway's picture of the catalog.
"""

from collections.abc import Callable
from typing import Any

from broker.payload.signature import CLASSIFY, DEFAULT_SIGNATURE, Declared, Method, TensorSpec
from broker.wire.errors import ERRORS
from gateway.catalog import CatalogView, PipelineView
from gateway.documents import (
    NO_CATALOG,
    Document,
    NoSuch,
    find_model,
    nowhere,
    refused,
    wrong_method,
)
from gateway.tfs.routes import Asked, TfsRoute

_DTYPES = {
    "BOOL": "DT_BOOL", "BYTES": "DT_STRING", "FP16": "DT_HALF", "BF16": "DT_BFLOAT16",
    "FP32": "DT_FLOAT", "FP64": "DT_DOUBLE",
}  # fmt: skip
"""Those of integers are named alike, but for the prefix."""


def document(route: TfsRoute, view: CatalogView | None, reasons: list[str]) -> Document:
    """The answer at a route. `reasons` say why this gateway serves nothing at all, if it does not.

    Raises NoSuch.
    """
    if route.asked in _WITHOUT_CATALOG:
        return _WITHOUT_CATALOG[route.asked](route)
    if view is None:
        return refused(503, NO_CATALOG)
    if route.asked is Asked.MODELS:
        return Document(200, {"models": list(view.pipelines)})
    model = find_model(view, route.model, route.version)
    version = version_of(model, route.label) if route.label else route.version
    if route.asked in _OF_A_MODEL:
        return _OF_A_MODEL[route.asked](model, version)
    if route.version or route.label:
        return Document(200, _status(model, version, view, reasons))
    return _readiness(model, view, reasons)


def version_of(model: PipelineView, label: str) -> str:
    """What a label stands for; see `PipelineView.labelled`. Raises NoSuch."""
    version = model.labelled(label)
    if version is None:
        raise NoSuch(f"model {model.name!r} has no label {label[:100]!r}")
    return version


def _readiness(model: PipelineView, view: CatalogView, reasons: list[str]) -> Document:
    """Of a model as a whole. Both protocols have this path, so the answer has the fields of both.

    While it is not ready KServe's clients, and probes of Kubernetes, need a 503. Clients of
    TensorFlow Serving that wait for a model take what is not 200 for "not yet" as well (before it
    knows the model that server itself says 404), or find the state in the body.
    """
    why = reasons or model.reasons()
    content = {"name": model.name, "ready": not why, **_status(model, "", view, reasons)}
    if not why:
        return Document(200, content)
    return Document(503, {**content, "error": "; ".join(why)})


def _status(
    model: PipelineView, version: str, view: CatalogView, reasons: list[str]
) -> dict[str, Any]:
    status = {"error_code": "OK", "error_message": ""}
    if reasons:
        status = {"error_code": "UNAVAILABLE", "error_message": "; ".join(reasons)}
    state = "UNKNOWN" if reasons else _state(model, view)
    versions = [version] if version else model.versions
    return {
        "model_version_status": [
            {"version": each, "state": state, "status": status} for each in versions
        ]
    }


def _state(model: PipelineView, view: CatalogView) -> str:
    if view.draining:
        return "UNLOADING"
    if not model.reasons():
        return "AVAILABLE"
    return "LOADING" if all(stage.workers for stage in model.stages) else "START"


def _metadata(model: PipelineView, version: str) -> Document:
    lack = model.lack_of_tensors()
    if lack is not None:
        return refused(ERRORS[lack.code].status, lack.message)
    inputs = _tensors(model.inputs)
    signatures = {
        DEFAULT_SIGNATURE: {
            "inputs": inputs,
            "outputs": _tensors(model.outputs),
            "method_name": "tensorflow/serving/predict",
        }
    }
    for method in model.methods:
        signatures[method.name] = {
            "inputs": inputs,
            "outputs": _outputs(method, model.outputs),
            "method_name": f"tensorflow/serving/{method.kind}",
        }
    spec = {
        "name": model.name,
        "signature_name": "",
        "version": version or model.versions[-1],
    }
    return Document(
        200,
        {
            "model_spec": spec,
            "metadata": {"signature_def": {"signature_def": signatures}},
        },
    )


def _outputs(method: Method, outputs: Declared) -> dict[str, Any]:
    """Under the names that such signatures of TensorFlow have for them."""
    named = (
        {"scores": method.values, "classes": method.classes}
        if method.kind == CLASSIFY
        else {"outputs": method.values}
    )
    return {
        role: _tensor(spec)
        for role, name in named.items()
        if (spec := outputs.spec(name)) is not None
    }


def _tensors(declared: Declared) -> dict[str, Any]:
    return {spec.name: _tensor(spec) for spec in declared.tensors}


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {
        "dtype": _DTYPES.get(spec.datatype) or f"DT_{spec.datatype}",
        "tensor_shape": {
            "dim": [{"size": str(length), "name": ""} for length in spec.shape],
            "unknown_rank": False,
        },
        "name": spec.name,
    }


def _explain(model: PipelineView, _version: str) -> Document:
    return refused(501, f"pipeline {model.name!r} explains nothing: ask it to predict")


def _alive(_route: TfsRoute) -> Document:
    return Document(200, {"status": "alive"})


_WITHOUT_CATALOG: dict[Asked, Callable[[TfsRoute], Document]] = {
    Asked.ALIVE: _alive,
    Asked.WRONG_METHOD: lambda route: wrong_method(route.allow),
    Asked.NOWHERE: lambda _route: nowhere(),
}
_OF_A_MODEL = {Asked.METADATA: _metadata, Asked.EXPLAIN: _explain}
