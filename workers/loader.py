"""Loads a plug-in script and finds the one class in it that is to run.

Knows the import system; what a good plug-in class looks like is `checks.py`'s.
"""

import difflib
import importlib.util
import linecache
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType

from workers import checks
from workers.api import Worker
from workers.functions import worker_class
from workers.missing import advice_for
from workers.whereabouts import line_of, where

OUR_NAMES = ("broker", "gateway", "millstream", "workers")
_OUR_ROOT = Path(__file__).resolve().parent.parent
_OURS = ("<frozen importlib", *(f"{_OUR_ROOT / name}/" for name in ("workers", "millstream")))

loading = ""
"""The script that is being loaded, for what it must not do meanwhile."""


class LoadError(Exception):
    """The plug-in cannot be used. `trace` is the script's own traceback, "" where there is none."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


def load(script: str, class_name: str = "") -> tuple[type[Worker], list[str]]:
    """The plug-in class of a script, and warnings about it, one line each. Raises LoadError."""
    module, warnings = run(script)
    plugin, more = plugin_of(module, script, class_name)
    return plugin, warnings + more


def run(script: str) -> tuple[ModuleType, list[str]]:
    """A script as a module, and warnings about it. Raises LoadError."""
    path = Path(script).resolve()
    if not path.is_file():
        raise LoadError(f"{script}: there is no such file")
    warnings = _shadowed(path)
    return _run_script(path, warnings), warnings


def plugin_of(
    module: ModuleType, script: str, class_name: str = ""
) -> tuple[type[Worker], list[str]]:
    """The same as `load`, of a script that was run. Raises LoadError."""
    name = Path(script).name
    plugin = _choose(module, name, class_name)
    try:
        return plugin, checks.check_class(plugin)
    except checks.ContractError as error:
        raise LoadError(f"{where(plugin, error.hook) or name}: {error}") from None


def trimmed_trace(error: BaseException) -> str:
    """The traceback of an error from a script, without the frames of ours before it."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and _is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    # An error that never reached the script (a bad signature, a syntax error) has no other frames.
    return "".join(traceback.format_exception(type(error), error, frames))


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS)


def _run_script(path: Path, warnings: list[str]) -> ModuleType:
    global loading  # noqa: PLW0603  what the script calls is told nothing
    name = _module_name(path)
    # Last, so that a module beside the script never hides one of Python's or of a library.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path.name}: is no Python script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loading = str(path)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # SystemExit included: a script has no say over this process
        linecache.checkcache()
        hint = f" ({'; '.join(warnings)})" if warnings and isinstance(error, ImportError) else ""
        advice = advice_for(str(error), _modules_beside(path)) if _is_missing(error) else ""
        place = line_of(error, str(path.parent))
        where_it_is = f" ({place})" if place and place.partition(":")[0] not in str(error) else ""
        message = (
            f"{path.name}: cannot be loaded: {type(error).__name__}: {error}{advice}{hint}"
            f"{where_it_is}"
        )
        raise LoadError(message, trimmed_trace(error)) from None
    finally:
        loading = ""
    return module


def _is_missing(error: BaseException) -> bool:
    return isinstance(error, ModuleNotFoundError)


def _modules_beside(path: Path) -> list[str]:
    return [other.stem for other in path.parent.glob("*.py") if other != path]


def _module_name(path: Path) -> str:
    """The script's own name where that is free, so that what it defines can be imported by it."""
    name = path.stem
    if not name.isidentifier() or name in sys.modules or importlib.util.find_spec(name):
        return f"plugin_{name}"
    return name


def _shadowed(path: Path) -> list[str]:
    """A warning for each module beside the script that cannot be imported, as we bear its name."""
    warnings = []
    for name in OUR_NAMES:
        for beside in (path.parent / f"{name}.py", path.parent / name):
            is_module = beside.is_file() or any(beside.glob("*.py"))
            if is_module and beside not in (_OUR_ROOT / name, path):
                warnings.append(
                    f"{beside.name} beside the script cannot be imported: "
                    f"Millstream has a package {name!r}; rename yours"
                )
    return warnings


def _choose(module: ModuleType, script: str, class_name: str) -> type[Worker]:
    if class_name:
        thing = getattr(module, class_name, None)
        chosen = worker_class(thing)
        if chosen is None:
            found = _stages(module)
            what = (
                "is not there" if thing is None else "is neither a subclass of Worker nor a @stage"
            )
            nearest = difflib.get_close_matches(class_name, found, n=1)
            hint = f"; there is {', '.join(found)}" if found else ""
            hint = f"; did you mean {nearest[0]}?" if nearest and thing is None else hint
            raise LoadError(f"{script}: {class_name} {what}{hint}")
        return chosen
    found = _stages(module)
    if not found:
        raise LoadError(f"{script}: defines no subclass of millstream.Worker, and no @stage")
    if len(found) > 1:
        raise LoadError(
            f"{script}: defines several workers ({', '.join(found)}); "
            f"choose one, as in {script}:{next(iter(found))}"
        )
    return next(iter(found.values()))


def _stages(module: ModuleType) -> dict[str, type[Worker]]:
    """What a script itself defines, by name; one class under two names is one class."""
    classes = {name: worker_class(value) for name, value in vars(module).items()}
    found = {
        cls: name
        for name, cls in reversed(classes.items())
        if cls is not None and cls.__module__ == module.__name__
    }
    return {name: cls for cls, name in reversed(found.items())}
