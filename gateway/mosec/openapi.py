"""MOSEC's OpenAPI document of what is served: what each route takes and gives, where its workers
say so. Pure.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.catalog import PipelineView

_STATUSES = {
    "200": "The result",
    "400": "The request is wrong",
    "408": "The time is over",
    "413": "The body is too large",
    "422": "The request is not valid",
    "429": "Too much waits; see Retry-After",
    "500": "The pipeline failed on this request",
    "503": "Not ready, or shutting down; see Retry-After",
}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}


def document(views: Iterable[PipelineView]) -> bytes:
    """As JSON; for these pipelines, those that are of MOSEC's kind."""
    paths: dict[str, Any] = {
        "/": {"get": _page("Whether the service is alive")},
        "/metrics": {"get": _page("Metrics in the format of Prometheus")},
    }
    schemas: dict[str, Any] = {}
    for view in views:
        if view.mosec is None:
            continue
        told = msgspec.json.decode(view.mosec.openapi) if view.mosec.openapi else {}
        schemas |= told.get("schemas") or {}
        for route in view.routes:
            paths[route] = {"post": _operation(told)}
    about = {"title": "mosec", "version": "0.9.8", "description": "Served by Millstream."}
    found: dict[str, Any] = {"openapi": "3.1.0", "info": about, "paths": paths}
    if schemas:
        found["components"] = {"schemas": schemas}
    return msgspec.json.encode(found)


def _operation(told: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {}
    if told.get("request_body"):
        operation["requestBody"] = told["request_body"]
    responses: dict[str, Any] = {code: {"description": words} for code, words in _STATUSES.items()}
    operation["responses"] = responses | (told.get("responses") or {})
    return operation


def _page(summary: str) -> dict[str, Any]:
    answer = {"description": summary, "content": _TEXT}
    return {"summary": summary, "responses": {"200": answer}}
