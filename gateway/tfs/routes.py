"""Paths below /v1 to what they ask for. Pure: knows the paths, not what is served."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple


class Asked(Enum):
    """What a request asks for."""

    ALIVE = auto()  # at the root, for KServe
    MODELS = auto()
    MODEL = auto()  # TensorFlow Serving: its state; KServe: whether it is ready
    METADATA = auto()
    PREDICT = auto()
    CLASSIFY = auto()
    REGRESS = auto()
    EXPLAIN = auto()
    WRONG_METHOD = auto()
    NOWHERE = auto()


class TfsRoute(NamedTuple):
    """What a request asks for, and about which model, and version or label ("" for any)."""

    asked: Asked
    model: str = ""
    version: str = ""
    label: str = ""
    allow: str = ""  # of WRONG_METHOD


RUNS = frozenset({Asked.PREDICT, Asked.CLASSIFY, Asked.REGRESS})
ALIVE = TfsRoute(Asked.ALIVE)

_VERBS = {
    "predict": Asked.PREDICT,
    "classify": Asked.CLASSIFY,
    "regress": Asked.REGRESS,
    "explain": Asked.EXPLAIN,
}
_PAGES = {(): Asked.MODEL, ("metadata",): Asked.METADATA}


def find(method: str, segments: Sequence[str]) -> TfsRoute:
    """The route of a request; `segments` are those of its path behind /v1, decoded."""
    if tuple(segments) in (("models",), ("models", "")):
        return _allowed(method, TfsRoute(Asked.MODELS))
    head, _, verb = segments[-1].rpartition(":") if segments else ("", "", "")
    if verb in _VERBS:
        return _allowed(method, _of_a_model([*segments[:-1], head], {(): _VERBS[verb]}))
    return _allowed(method, _of_a_model(segments, _PAGES))


def _of_a_model(segments: Sequence[str], known: dict[tuple[str, ...], Asked]) -> TfsRoute:
    match segments:
        case ("models", model, "versions", version, *rest) if model and version:
            return TfsRoute(known.get(tuple(rest), Asked.NOWHERE), model, version)
        case ("models", model, "labels", label, *rest) if model and label:
            return TfsRoute(known.get(tuple(rest), Asked.NOWHERE), model, label=label)
        case ("models", model, *rest) if model:
            return TfsRoute(known.get(tuple(rest), Asked.NOWHERE), model)
        case _:
            return TfsRoute(Asked.NOWHERE)


def _allowed(method: str, route: TfsRoute) -> TfsRoute:
    if route.asked is Asked.NOWHERE:
        return route
    if route.asked in _VERBS.values():
        return route if method == "POST" else TfsRoute(Asked.WRONG_METHOD, allow="POST")
    return route if method in ("GET", "HEAD") else TfsRoute(Asked.WRONG_METHOD, allow="GET, HEAD")
