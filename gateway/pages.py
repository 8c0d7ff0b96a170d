"""What the gateway answers by itself: liveness, readiness, what is served, metrics."""

import time
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
from prometheus_client import CollectorRegistry

from broker.wire.errors import ErrorCode
from broker.wire.exposition import exposition
from broker.wire.messages import Failure
from gateway import docs, openapi
from gateway.catalog import CatalogView
from gateway.dialect import BadRequest
from gateway.documents import NO_CATALOG, Document, NoSuch, refused
from gateway.oip import documents as oip_documents
from gateway.oip.routes import OipRoute
from gateway.oip.statistics import statistics
from gateway.pending import PendingTable
from gateway.problems import problem, refusal
from gateway.routes import Kind, Route
from gateway.tfs import documents as tfs_documents
from gateway.ui import files

_FILES = (Kind.OPENAPI, Kind.DOCS, Kind.UI)


class Page(NamedTuple):
    """A complete answer."""

    status: int
    content_type: str
    body: bytes
    extra: str = ""  # header lines


class Pages:
    """Reads the state of the gateway, changes nothing."""

    def __init__(self, table: PendingTable[Any], registry: CollectorRegistry) -> None:
        self._table = table
        self.registry = registry
        self.view: CatalogView | None = None
        """What is served, once a broker has said so."""
        self.draining = False

    def answer(self, route: Route, request_id: str, accept: str = "") -> Page:
        """The page at a route, or the error that belongs there. `accept` is for metrics."""
        if route.kind is Kind.METRICS:
            return Page(200, *exposition(self.registry, accept))
        is_documentation = route.kind in _FILES
        page = self._documentation(route) if is_documentation else self._find(route, request_id)
        if isinstance(page, Page):
            return page
        extra = f"Allow: {route.allow}\r\n" if route.allow else ""
        said = problem(page, request_id, extra)
        return Page(said.status, "application/json", said.body, said.extra)

    def _find(self, route: Route, request_id: str) -> Page | Failure:
        match route.kind:
            case Kind.LIVEZ:
                return _json(200, {"alive": True})
            case Kind.READYZ:
                return self._readyz(route.query, request_id)
            case Kind.PIPELINES | Kind.PIPELINE:
                return self._served(route.name)
            case Kind.MODELS | Kind.INFER:
                return self._models(route)
            case _:
                return _no_page(route)

    def _readyz(self, query: str, request_id: str) -> Page | Failure:
        """Whether every stage (of `?pipeline=`, or of all) has a ready worker, else why not."""
        names = parse_qs(query, keep_blank_values=True).get("pipeline", [])
        reasons = self._global_reasons()
        if not reasons and self.view is not None:
            if not names:
                reasons = self.view.reasons()
            for name in names:
                pipeline = self.view.pipelines.get(name)
                if pipeline is None:
                    return self.unknown(name)
                reasons += pipeline.reasons()
        if not reasons:
            return _json(200, {"ready": True})
        said = problem(refusal(ErrorCode.NOT_READY, "; ".join(reasons)), request_id)
        body = {"ready": False, "reasons": reasons, **msgspec.json.decode(said.body)}
        return _json(said.status, body, said.extra)

    def reasons_of(self, name: str) -> list[str] | None:
        """Why a pipeline, or "" for all, is not ready; None where there is no such pipeline."""
        reasons = self._global_reasons()
        if self.view is None:
            return reasons or [NO_CATALOG]
        if not name:
            return reasons or self.view.reasons()
        pipeline = self.view.pipelines.get(name)
        return None if pipeline is None else reasons or pipeline.reasons()

    def _global_reasons(self) -> list[str]:
        if self.draining:
            return ["this gateway is shutting down"]
        trouble = self._table.trouble(time.monotonic())
        return [trouble] if trouble else []

    def _served(self, name: str) -> Page | Failure:
        """One pipeline, or all of them where no name is given."""
        if self.view is None:
            return refusal(ErrorCode.NOT_READY, NO_CATALOG)
        if not name:
            served = [pipeline.describe() for pipeline in self.view.pipelines.values()]
            return _json(200, {"pipelines": served})
        pipeline = self.view.pipelines.get(name)
        return self.unknown(name) if pipeline is None else _json(200, pipeline.describe())

    def _documentation(self, route: Route) -> Page | Failure:
        if route.kind is Kind.UI:
            file = files.read(route.name)
            return _no_page(route) if file is None else Page(200, *file, files.HEADERS)
        if route.kind is Kind.DOCS:
            file = docs.read(route.name)
            if file is not None:
                return Page(200, *file, docs.HEADERS)
            nothing = f"nothing is at {route.name[:200]!r} in /docs"
            return refusal(ErrorCode.NOT_FOUND, nothing if docs.is_installed() else docs.MISSING)
        if self.view is None:
            return refusal(ErrorCode.NOT_READY, NO_CATALOG)
        return _json(200, openapi.document(self.view.pipelines.values()))

    def _models(self, route: Route) -> Page:
        """As the protocol at this path has it."""
        if route.tfs is None:
            assert route.oip is not None
            return _said(self.oip(route.oip), route.allow)
        try:
            said = tfs_documents.document(route.tfs, self.view, self._global_reasons())
        except NoSuch as error:
            said = refused(404, str(error))
        return _said(said, route.allow)

    def oip(self, route: OipRoute) -> Document:
        """What the Open Inference Protocol has there."""
        try:
            return oip_documents.document(route, self.view, self._global_reasons())
        except NoSuch as error:
            return refused(404, str(error))

    def index(self, route: OipRoute, body: bytes) -> Page:
        """The index of all models, as its request's body asks for it."""
        try:
            only_ready = oip_documents.wants_only_ready(body)
        except BadRequest as error:
            return _said(refused(400, str(error)))
        return _said(self.oip(route._replace(only_ready=only_ready)))

    def statistics(self, route: OipRoute, status: bytes | None) -> Page:
        """What the broker counts, if it has said so."""
        return _said(self.oip_statistics(route, status))

    def oip_statistics(self, route: OipRoute, status: bytes | None) -> Document:
        """The same for any protocol."""
        if status is None or self.view is None:
            return refused(503, "no broker answers")
        return statistics(route, self.view, status, time.time())

    def unknown(self, name: str) -> Failure:
        """The failure for a pipeline that is not served, naming those that are."""
        served = ", ".join(self.view.pipelines) if self.view is not None else ""
        return refusal(
            ErrorCode.UNKNOWN_PIPELINE,
            f"no pipeline {name[:200]!r}; served: {served or 'none'}",
        )


def _no_page(route: Route) -> Failure:
    if route.kind is Kind.WRONG_METHOD:
        return refusal(ErrorCode.METHOD_NOT_ALLOWED, f"allowed here: {route.allow}")
    return refusal(ErrorCode.NOT_FOUND, f"nothing is at {route.name[:200]!r}")


def _said(document: Document, allow: str = "") -> Page:
    extra = f"Allow: {allow}\r\n" if allow else ""
    if document.status == 503:
        extra += "Retry-After: 1\r\n"
    return _json(document.status, document.content, extra)


def _json(status: int, content: object, extra: str = "") -> Page:
    return Page(status, "application/json", msgspec.json.encode(content), extra)
