"""Scripts that serve what they define: run as `python app.py` does, up to their call of `serve`."""

import linecache
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

import millstream
from millstream.local.declare import Pipeline, Served, pipelines_of
from millstream.local.mistakes import Mistake, Place, caller
from workers.loader import LoadError, trimmed_trace


class App(Struct):
    """What a script would serve, and the options that it gives."""

    pipelines: list[Pipeline]
    options: Mapping[str, Any]
    place: Place


class _Called(BaseException):
    """`serve` was called; the script ends there."""

    def __init__(self, served: Sequence[Served], options: Mapping[str, Any], place: Place) -> None:
        super().__init__()
        self.served = served
        self.options = options
        self.place = place


def serves(script: str) -> bool:
    """Whether a script may call `serve`: others are loaded as plug-ins are."""
    try:
        return re.search(r"\bserve\s*\(", Path(script).read_text()) is not None
    except (OSError, UnicodeDecodeError):
        return False


def app_of(script: str) -> App | None:
    """What a script serves; None where it does not call `serve`. Raises LoadError."""
    path = Path(script).resolve()
    module = ModuleType("__main__")
    module.__file__ = str(path)
    before = sys.modules["__main__"]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    with _Watched():
        sys.modules["__main__"] = module
        try:
            exec(compile(path.read_bytes(), path, "exec"), vars(module))
        except _Called as called:
            _settle(module, path)
            return _app(called)
        except BaseException as error:
            linecache.checkcache()
            message = f"{path.name}: cannot be run: {type(error).__name__}: {error}"
            raise LoadError(message, trimmed_trace(error)) from None
        finally:
            sys.modules["__main__"] = before
    return None


def _app(called: _Called) -> App:
    try:
        return App(pipelines_of(called.served, called.place), called.options, called.place)
    except Mistake as mistake:
        raise LoadError(str(mistake)) from None


class _Watched:
    """Has `from millstream import serve` mean another one."""

    def __enter__(self) -> None:
        vars(millstream)["serve"] = _serve

    def __exit__(self, *_: object) -> None:
        del vars(millstream)["serve"]


def _serve(*pipelines: Served, **options: Any) -> None:
    raise _Called(pipelines, options, caller())


def _settle(module: ModuleType, path: Path) -> None:
    """Its classes live on in a module of another name: there is a `__main__` already."""
    name = f"app_{path.stem}"
    sys.modules[name] = module
    module.__name__ = name
    for value in vars(module).values():
        cls = getattr(value, "worker", value)
        if isinstance(cls, type) and cls.__module__ == "__main__":
            cls.__module__ = name
