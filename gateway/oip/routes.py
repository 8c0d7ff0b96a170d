"""Paths below /v2 to what they ask for. Pure: knows the paths, not what is served."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple


class Asked(Enum):
    """What a request asks for."""

    SERVER = auto()
    LIVE = auto()
    READY = auto()
    MODELS = auto()
    MODEL = auto()
    MODEL_READY = auto()
    CONFIG = auto()
    STATS = auto()  # of one model, or of all
    INDEX = auto()
    CHANGE = auto()  # load or unload a model
    INFER = auto()
    WRONG_METHOD = auto()
    NOWHERE = auto()


class OipRoute(NamedTuple):
    """What a request asks for, and about which model and version ("" for any)."""

    asked: Asked
    model: str = ""
    version: str = ""
    allow: str = ""  # of WRONG_METHOD
    only_ready: bool = False  # of INDEX: leave out what is not ready


_FIXED = {
    (): Asked.SERVER,
    ("",): Asked.SERVER,
    ("health", "live"): Asked.LIVE,
    ("health", "ready"): Asked.READY,
    ("models",): Asked.MODELS,
    ("models", "stats"): Asked.STATS,
    ("repository", "index"): Asked.INDEX,
}
_OF_A_MODEL = {
    (): Asked.MODEL,
    ("ready",): Asked.MODEL_READY,
    ("config",): Asked.CONFIG,
    ("stats",): Asked.STATS,
    ("infer",): Asked.INFER,
}
_POSTS = frozenset({Asked.INFER, Asked.INDEX, Asked.CHANGE})


def find(method: str, segments: Sequence[str]) -> OipRoute:
    """The route of a request; `segments` are those of its path behind /v2, decoded."""
    route = _route(tuple(segments))
    if route.asked is Asked.NOWHERE:
        return route
    if route.asked in _POSTS:
        return route if method == "POST" else OipRoute(Asked.WRONG_METHOD, allow="POST")
    return route if method in ("GET", "HEAD") else OipRoute(Asked.WRONG_METHOD, allow="GET, HEAD")


def _route(segments: tuple[str, ...]) -> OipRoute:
    fixed = _FIXED.get(segments)
    if fixed is not None:
        return OipRoute(fixed)
    match segments:
        case ("models", model, "versions", version, *rest) if model and version:
            return OipRoute(_OF_A_MODEL.get(tuple(rest), Asked.NOWHERE), model, version)
        case ("models", model, *rest) if model:
            return OipRoute(_OF_A_MODEL.get(tuple(rest), Asked.NOWHERE), model)
        case ("repository", "models", model, "load" | "unload"):
            return OipRoute(Asked.CHANGE, model)
        case _:
            return OipRoute(Asked.NOWHERE)
