"""What is served, as this protocol says it: server, models, their configuration, the repository.

Pure: reads the gateway's picture of the catalog.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from broker.payload.signature import Declared
from gateway.catalog import CatalogView, PipelineView
from gateway.dialect import BadRequest
from gateway.documents import NO_CATALOG, Document, find_model, nowhere, refused, wrong_method
from gateway.oip.routes import Asked, OipRoute

PLATFORM = "millstream"
SERVER_VERSION = "2"
EXTENSIONS = [
    "binary_tensor_data", "model_configuration", "model_repository", "parameters", "statistics",
]  # fmt: skip


def document(route: OipRoute, view: CatalogView | None, reasons: list[str]) -> Document:
    """The answer at a route. `reasons` say why this gateway serves nothing at all, if it does not.

    Raises NoSuch.
    """
    if route.asked is Asked.READY:
        why = reasons or (view.reasons() if view is not None else [])
        return _ready(not why, {}, why)
    if route.asked in _WITHOUT_CATALOG:
        return _WITHOUT_CATALOG[route.asked](route)
    if view is None:
        return refused(503, NO_CATALOG)
    if route.asked in _OF_ALL:
        return Document(200, _OF_ALL[route.asked](view, route))
    model = find_model(view, route.model, route.version)
    if route.asked is Asked.MODEL_READY:
        why = reasons or model.reasons()
        return _ready(not why, {"name": model.name}, why)
    return Document(200, _OF_A_MODEL[route.asked](model))


class _IndexRequest(Struct):
    ready: bool = False


_decode_index = msgspec.json.Decoder(_IndexRequest).decode


def wants_only_ready(body: bytes) -> bool:
    """What the body of a request for the index says; there need be none. Raises BadRequest."""
    if not body:
        return False
    try:
        return _decode_index(body).ready
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the request is not as the protocol has it: {error}") from None


def _ready(is_ready: bool, content: dict[str, Any], reasons: list[str]) -> Document:
    content = {**content, "ready": is_ready}
    if is_ready:
        return Document(200, content)
    return Document(503, {**content, "error": "; ".join(reasons)})


def _metadata(model: PipelineView) -> dict[str, Any]:
    return {
        "name": model.name,
        "versions": model.versions,
        "platform": PLATFORM,
        "inputs": _tensors(model.inputs),
        "outputs": _tensors(model.outputs),
    }


def _tensors(declared: Declared) -> list[dict[str, Any]]:
    return [
        {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}
        for spec in declared.tensors
    ]


def _config(model: PipelineView) -> dict[str, Any]:
    """One request is one item, so clients see no batches: `max_batch_size` is 0."""
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": 0,
        "input": _config_of_tensors(model.inputs),
        "output": _config_of_tensors(model.outputs),
        "model_transaction_policy": {"decoupled": model.streams},
    }


def _config_of_tensors(declared: Declared) -> list[dict[str, Any]]:
    return [
        {"name": spec.name, "data_type": _type_name(spec.datatype), "dims": spec.shape}
        for spec in declared.tensors
    ]


def _type_name(datatype: str) -> str:
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


def _models(view: CatalogView, _route: OipRoute) -> dict[str, Any]:
    return {"models": list(view.pipelines)}


def _index(view: CatalogView, route: OipRoute) -> list[dict[str, Any]]:
    found = []
    for model in view.pipelines.values():
        reasons = "; ".join(model.reasons())
        if reasons and route.only_ready:
            continue
        state = "UNAVAILABLE" if reasons else "READY"
        found += [
            {"name": model.name, "version": version, "state": state, "reason": reasons}
            for version in model.versions
        ]
    return found


def _live(_route: OipRoute) -> Document:
    return Document(200, {"live": True})


def _server(_route: OipRoute) -> Document:
    content = {"name": PLATFORM, "version": SERVER_VERSION, "extensions": EXTENSIONS}
    return Document(200, content)


def _change(_route: OipRoute) -> Document:
    return refused(400, "models come and go with their workers: none is loaded or unloaded here")


_WITHOUT_CATALOG: dict[Asked, Callable[[OipRoute], Document]] = {
    Asked.LIVE: _live,
    Asked.SERVER: _server,
    Asked.WRONG_METHOD: lambda route: wrong_method(route.allow),
    Asked.CHANGE: _change,
    Asked.NOWHERE: lambda _route: nowhere(),
}
_OF_ALL: dict[Asked, Callable[[CatalogView, OipRoute], Any]] = {
    Asked.MODELS: _models,
    Asked.INDEX: _index,
}
_OF_A_MODEL = {Asked.MODEL: _metadata, Asked.CONFIG: _config}
