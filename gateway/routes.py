"""Request targets to what they ask for. Pure: knows the paths, not what is served."""

from enum import Enum, auto
from typing import NamedTuple
from urllib.parse import unquote

from gateway import admin as admin_routes
from gateway.oip import routes as oip_routes
from gateway.tfs import routes as tfs_routes

_GETS = frozenset({"GET", "HEAD"})


class Kind(Enum):
    """What a request asks for."""

    RUN = auto()  # one pipeline
    RUN_ONLY = auto()  # the pipeline, where there is just one
    PIPELINE = auto()
    PIPELINES = auto()
    LIVEZ = auto()
    READYZ = auto()
    METRICS = auto()
    OPENAPI = auto()
    DOCS = auto()  # the page, or a file of it
    UI = auto()  # likewise
    UI_EVENTS = auto()  # what that page shows
    INFER = auto()  # one pipeline, in another protocol
    MODELS = auto()  # what else is below /v1 or /v2, where other protocols have their own paths
    ADMIN = auto()  # below /admin: changes of the deployment
    WRONG_METHOD = auto()
    NOWHERE = auto()


class Route(NamedTuple):
    """What a request asks for, with what its target says about it, decoded."""

    kind: Kind
    name: str = ""
    version: str = ""
    query: str = ""
    allow: str = ""  # where the method is wrong
    oip: oip_routes.OipRoute | None = None  # of INFER and MODELS, below /v2
    tfs: tfs_routes.TfsRoute | None = None  # of INFER and MODELS, below /v1
    admin: admin_routes.AdminRoute | None = None  # of ADMIN


_PAGES = {
    "pipelines": Kind.PIPELINES,
    "livez": Kind.LIVEZ,
    "readyz": Kind.READYZ,
    "metrics": Kind.METRICS,
    "openapi.json": Kind.OPENAPI,
    "docs": Kind.DOCS,
    "ui": Kind.UI,
}


def find(method: str, target: str) -> Route:
    """The route of a request. `target` is its path and query, as sent: `%2F` is part of a name."""
    path, _, query = target.partition("?")
    segments = tuple(unquote(segment) for segment in path.split("/")[1:])
    route = Route(Kind.NOWHERE, path)
    match segments:
        case ("pipelines", name) if name:
            run, about = Route(Kind.RUN, name), Route(Kind.PIPELINE, name)
            route = run if method == "POST" else _page(method, about, allow="GET, HEAD, POST")
        case ("pipelines", name, "versions", version) if name and version:
            route = _run(method, Route(Kind.RUN, name, version))
        case ("inference",):
            route = _run(method, Route(Kind.RUN_ONLY))
        case (page,) if page in _PAGES:
            route = _page(method, Route(_PAGES[page], query=query), allow="GET, HEAD")
        case ("docs", file) if file:
            route = _page(method, Route(Kind.DOCS, file), allow="GET, HEAD")
        case ("ui", "events"):
            is_get = method == "GET"
            route = Route(Kind.UI_EVENTS) if is_get else Route(Kind.WRONG_METHOD, allow="GET")
        case ("ui", file) if file:
            route = _page(method, Route(Kind.UI, file), allow="GET, HEAD")
        case ("v2", *rest):
            route = _oip(oip_routes.find(method, rest))
        case ("v1", *rest):
            route = _tfs(tfs_routes.find(method, rest))
        case ("",):
            route = _page(method, _tfs(tfs_routes.ALIVE), allow="GET, HEAD")
        case ("admin", *rest) if (found := admin_routes.find(method, rest, query)) is not None:
            route = Route(Kind.ADMIN, admin=found)
    return route


def _oip(found: oip_routes.OipRoute) -> Route:
    kind = Kind.INFER if found.asked is oip_routes.Asked.INFER else Kind.MODELS
    return Route(kind, found.model, found.version, allow=found.allow, oip=found)


def _tfs(found: tfs_routes.TfsRoute) -> Route:
    kind = Kind.INFER if found.asked in tfs_routes.RUNS else Kind.MODELS
    return Route(kind, found.model, found.version, allow=found.allow, tfs=found)


def _run(method: str, route: Route) -> Route:
    return route if method == "POST" else Route(Kind.WRONG_METHOD, allow="POST")


def _page(method: str, route: Route, *, allow: str) -> Route:
    return route if method in _GETS else Route(Kind.WRONG_METHOD, allow=allow)
