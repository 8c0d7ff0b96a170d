"""Plain functions as stages: `@stage("infer", max_batch_size=32)` above `def infer(batch)`.

Light, as `api.py` is, and for the same reason.
"""

import difflib
import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from workers.api import Worker
from workers.placement import Placement, Uses

_P = ParamSpec("_P")
_R = TypeVar("_R")

_ATTRIBUTES = (
    "max_batch_size", "concurrency", "repeatable", "max_streams", "content_type", "inputs",
    "outputs", "signatures", "streams", "example",
)  # fmt: skip
_HOOKS = ("setup", "teardown", "decode", "encode")


class StageFunction(Generic[_P, _R]):
    """A function that is a stage. Called, it is the function, as tests will have it."""

    def __init__(self, function: Callable[_P, _R], name: str, settings: dict[str, Any]) -> None:
        """Raises TypeError for a keyword that is neither an attribute nor a hook of `Worker`."""
        functools.update_wrapper(self, function)
        self.worker = _worker_class(function, name, settings)
        """The same as a class."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """What the function returns."""
        function: Callable[_P, _R] = self.__wrapped__  # type: ignore[attr-defined]
        return function(*args, **kwargs)

    def replicas(self, processes: int | None = None, **uses: Unpack[Uses]) -> Placement:
        """The stage, and how its workers are to run: see `Worker.replicas`."""
        return self.worker.replicas(processes, **uses)

    def __repr__(self) -> str:
        return f"<stage {self.worker.stage!r}, {self.worker.__qualname__}>"


@overload
def stage(name: Callable[_P, _R], /) -> StageFunction[_P, _R]: ...


@overload
def stage(
    name: str = "", /, **settings: Any
) -> Callable[[Callable[_P, _R]], StageFunction[_P, _R]]: ...


def stage(name: Any = "", /, **settings: Any) -> Any:
    """Makes a stage of a function that takes a batch (or a batch and its requests).

    The name of the stage is that of the function unless another is given. Keywords are the
    attributes of `Worker`, and `setup`, `teardown`, `decode` and `encode`: functions likewise.
    `millstream worker app.py:infer` serves it, too. Raises TypeError for any other keyword.
    """
    if callable(name):
        return StageFunction(name, "", {})
    if not isinstance(name, str):
        raise TypeError(f"the name of a stage is a text, not {name!r:.80}")
    return lambda function: StageFunction(function, name, settings)


def worker_class(thing: object) -> type[Worker] | None:
    """The class of whatever may stand in a script for a stage; None for anything else."""
    if isinstance(thing, type) and issubclass(thing, Worker):
        return thing
    return thing.worker if isinstance(thing, StageFunction) else None


def _worker_class(
    function: Callable[..., Any], name: str, settings: dict[str, Any]
) -> type[Worker]:
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"@stage belongs above a function, not {function!r:.80}")
    own_name = getattr(function, "__name__", "") or type(function).__name__
    for key in settings:
        if key not in (*_ATTRIBUTES, *_HOOKS):
            nearest = difflib.get_close_matches(key, [*_ATTRIBUTES, *_HOOKS], n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise TypeError(f"@stage above {own_name}: a stage has no {key!r}{hint}")
    members = {key: _member(key, value) for key, value in settings.items()}
    members |= {
        "forward": staticmethod(function),
        "stage": name or own_name.lower(),
        "__module__": function.__module__,
        "__qualname__": getattr(function, "__qualname__", own_name),
        "__doc__": function.__doc__,
    }
    return type(own_name, (Worker,), members)


def _member(key: str, value: Any) -> Any:
    return staticmethod(value) if key in _HOOKS and callable(value) else value
