"""Which dialect a request for inference speaks, and which version its path means."""

from multidict import CIMultiDictProxy

from gateway.catalog import PipelineView
from gateway.dialect import Dialect
from gateway.headers import clean
from gateway.oip.dialect import HEADER, Oip
from gateway.routes import Route
from gateway.tfs.dialect import Tfs
from gateway.tfs.documents import version_of


def dialect_of(
    route: Route,
    view: PipelineView | None,
    headers: "CIMultiDictProxy[str]",
    compress_bytes: int,
) -> Dialect:
    """That of a request at a route of `Kind.INFER`; `view` is its pipeline, if there is one."""
    if route.tfs is not None:
        return Tfs(route.tfs.asked, view, headers, compress_bytes=compress_bytes)
    return oip_of(view, headers)


def oip_of(view: PipelineView | None, headers: "CIMultiDictProxy[str]") -> Oip:
    """The Open Inference Protocol, as these headers put it."""
    return Oip(view, headers.getall(HEADER, ()), headers.get("Accept-Encoding", ""))


def asked_version(route: Route, view: PipelineView) -> str:
    """The version that is asked for, "" for any. Raises `documents.NoSuch` for an unknown label."""
    if route.tfs is not None and route.tfs.label:
        return version_of(view, clean(route.tfs.label))
    return view.version_of(clean(route.version))
