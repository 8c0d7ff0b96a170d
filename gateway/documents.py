"""Answers from the catalog alone: what the protocols that speak of models have in common. Pure."""

from typing import Any, NamedTuple

from gateway.catalog import CatalogView, PipelineView

NO_CATALOG = "no broker has said yet what is served"


class Document(NamedTuple):
    """An answer: its status, and the content of its JSON."""

    status: int
    content: Any


class NoSuch(Exception):
    """There is no such model, version or label; the message says which."""


def refused(status: int, text: str) -> Document:
    """An error."""
    return Document(status, {"error": text})


def wrong_method(allow: str) -> Document:
    """For a method that is none of those allowed at a path."""
    return refused(405, f"allowed here: {allow}")


def nowhere() -> Document:
    """For a path that means nothing."""
    return refused(404, "this protocol has nothing at this path")


def find_model(view: CatalogView, name: str, version: str) -> PipelineView:
    """The pipeline that serves as this model. Raises NoSuch."""
    model = view.pipelines.get(name)
    if model is None:
        served = ", ".join(view.pipelines) or "none"
        raise NoSuch(f"there is no model {name[:200]!r}; served: {served}")
    if version and model.version_of(version) not in model.versions:
        raise NoSuch(
            f"model {name!r} has no version {version[:100]!r}; served: {', '.join(model.versions)}"
        )
    return model
