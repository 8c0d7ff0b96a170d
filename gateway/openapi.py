"""The OpenAPI document of what is served now: its paths are pipelines, not patterns. Pure.

Made anew for each request of it, from the catalog alone, so that it is never out of date.
"""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import quote

from broker.payload.media_types import BYTES_TYPE, JSON_TYPE, MSGPACK_TYPES, OBJECTS_TYPE
from gateway.catalog import PipelineView
from gateway.components import RETRY_AFTER, SCHEMAS, Object
from gateway.schemas import input_schema, output_schema
from gateway.tfs.openapi import operations

_FILE = {"schema": {"type": "string", "format": "binary"}}
_BODY_TYPES = (BYTES_TYPE, "image/png", "image/jpeg", MSGPACK_TYPES[0], OBJECTS_TYPE)
"""Beside JSON and text: whatever else a client sends is bytes to the pipeline as well."""

_RUN_ERRORS = {
    "400": "The body is not what its content type says, or a header has no such value",
    "404": "No such pipeline or version",
    "408": "The body did not come in time",
    "413": "The body is too large",
    "415": "Nobody here reads this content type or encoding",
    "429": "Too much waits for this pipeline; see Retry-After",
    "500": "The pipeline failed on this request",
    "503": "Not ready, too much to do, or lost with a worker; see Retry-After",
    "504": "The deadline passed",
    "4XX": "What the pipeline rejects, and what is no request",
}
_PAGE_ERRORS = {
    "503": "No broker has said yet what is served; see Retry-After",
    "4XX": "What does not exist, and what is no request",
}
_HEADERS: list[Object] = [
    {
        "name": "X-Timeout-Ms",
        "in": "header",
        "description": "Milliseconds until the answer is of no use. Shortens the pipeline's own.",
        "schema": {"type": "number", "exclusiveMinimum": 0},
    },
    {
        "name": "X-Priority",
        "in": "header",
        "description": "Who goes first.",
        "schema": {"type": "string", "enum": ["high", "normal", "low"], "default": "normal"},
    },
    {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Comes back with the answer, and is in the logs; made where missing.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"},
    },
    {
        "name": "X-Api-Key",
        "in": "header",
        "description": "Whose fair share the request uses; else that of the client's address.",
        "schema": {"type": "string"},
    },
    {
        "name": "traceparent",
        "in": "header",
        "description": "Trace context, which plug-ins get to see.",
        "schema": {"type": "string"},
    },
]
_REQUEST_ID: Object = {
    "X-Request-Id": {"required": True, "schema": {"type": "string", "minLength": 1}}
}
_TEXT: Object = {"schema": {"type": "string"}}


def document(pipelines: Iterable[PipelineView]) -> Object:
    """The whole document, for these pipelines."""
    views = list(pipelines)
    paths: Object = {}
    for view in views:
        paths |= _pipeline_paths(view) | _model_paths(view)
    if len(views) == 1:
        paths["/inference"] = {"post": _run(views[0], "run", "Run the only pipeline")}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream",
            "version": _release(),
            "description": "The pipelines that are served here, as they are now.",
        },
        "paths": paths | _server_paths(),
        "components": {"schemas": SCHEMAS, "headers": {"Retry-After": RETRY_AFTER}},
    }


def _pipeline_paths(view: PipelineView) -> Object:
    path = f"/pipelines/{quote(view.name, safe='')}"
    paths: Object = {
        path: {
            "post": _run(view, f"run_{view.name}", f"Run {view.name}"),
            "get": {
                "tags": [view.name],
                "operationId": f"describe_{view.name}",
                "summary": f"Stages and readiness of {view.name}",
                "responses": _responses(_json_of("Pipeline"), _PAGE_ERRORS),
            },
        }
    }
    versions = [each for each in (*view.versions, *view.labels) if each]
    if versions:
        run = _run(view, f"run_version_{view.name}", f"Run one version of {view.name}")
        named = {
            "name": "version",
            "in": "path",
            "required": True,
            "schema": {"type": "string", "enum": versions},
        }
        run["parameters"] = [named, *run["parameters"]]
        paths[f"{path}/versions/{{version}}"] = {"post": run}
    if view.mosec is None:
        for place, route in enumerate(view.routes, 1):
            run = _run(view, f"run_{view.name}_route_{place}", f"Run {view.name}")
            paths[route] = {"post": run}
    return paths


def _model_paths(view: PipelineView) -> Object:
    """Those below /v1, for clients of TensorFlow Serving and KServe."""
    paths: Object = {}
    for path, each in operations(view).items():
        operation: Object = {
            "tags": [view.name],
            "operationId": f"{each.name}_{view.name}",
            "summary": each.summary,
        }
        errors = _PAGE_ERRORS if each.taken is None else _RUN_ERRORS
        if each.taken is not None:
            content = {JSON_TYPE: {"schema": each.taken}}
            operation["parameters"] = _HEADERS
            operation["requestBody"] = {"required": True, "content": content}
        given = {JSON_TYPE: {"schema": each.given}}
        operation["responses"] = _responses(given, errors, error="TextError")
        paths[path] = {"get" if each.taken is None else "post": operation}
    return paths


def _run(view: PipelineView, operation: str, summary: str) -> Object:
    taken, given = input_schema(view.stages[0]), output_schema(view.stages[-1])
    listed: list[Object] = [
        {"name": name, "in": "header", "schema": {"type": "string"}} for name in view.headers
    ]
    return {
        "tags": [view.name],
        "operationId": operation,
        "summary": summary,
        "parameters": [*_HEADERS, *listed],
        "requestBody": {
            "required": True,
            "content": {
                JSON_TYPE: {"schema": taken},
                **dict.fromkeys(_BODY_TYPES, _FILE),
                "text/plain": _TEXT,
            },
        },
        "responses": _responses(
            {
                JSON_TYPE: {"schema": given},
                **dict.fromkeys((MSGPACK_TYPES[0], OBJECTS_TYPE, BYTES_TYPE), _FILE),
                "*/*": _FILE,
            },
            _RUN_ERRORS,
            {
                "X-Model-Version": {"schema": {"type": "string"}},
                "Server-Timing": {
                    "description": "Queue and run of each stage, in milliseconds.",
                    "schema": {"type": "string"},
                },
            },
        ),
    }


def _server_paths() -> Object:
    readiness = {
        "name": "pipeline",
        "in": "query",
        "description": "Of this one alone.",
        "schema": {"type": "string"},
    }
    not_ready = {"503": "Not ready, with the reasons", "4XX": _PAGE_ERRORS["4XX"]}
    ready = _responses(_json_of("Ready"), not_ready)
    ready["503"]["content"] = _json_of("NotReady")
    pages = {
        "/pipelines": ("list_pipelines", "What is served", _json_of("Pipelines"), _PAGE_ERRORS),
        "/livez": ("livez", "Whether the gateway is alive", _json_of("Alive"), _PAGE_ERRORS),
        "/metrics": ("metrics", "Prometheus metrics", {"text/plain": _TEXT}, _PAGE_ERRORS),
    }
    paths: Object = {
        path: {
            "get": {
                "tags": ["gateway"],
                "operationId": operation,
                "summary": summary,
                "responses": _responses(content, errors),
            }
        }
        for path, (operation, summary, content, errors) in pages.items()
    }
    paths["/readyz"] = {
        "get": {
            "tags": ["gateway"],
            "operationId": "readyz",
            "summary": "Whether every stage has a worker that is ready",
            "parameters": [readiness],
            "responses": ready,
        }
    }
    return paths


def _responses(
    content: Object, errors: dict[str, str], headers: Object | None = None, *, error: str = "Error"
) -> Object:
    responses: Object = {
        "200": {
            "description": "The result",
            "headers": {**_REQUEST_ID, **(headers or {})},
            "content": content,
        }
    }
    for status, description in errors.items():
        said = dict(_REQUEST_ID)
        if status in ("429", "503"):
            said["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
        responses[status] = {
            "description": description,
            "headers": said,
            "content": _json_of(error),
        }
    return responses


def _json_of(name: str) -> Object:
    return {JSON_TYPE: {"schema": {"$ref": f"#/components/schemas/{name}"}}}


@cache
def _release() -> str:
    try:
        return version("millstream")
    except PackageNotFoundError:  # run from a folder, without being installed
        return "0"
