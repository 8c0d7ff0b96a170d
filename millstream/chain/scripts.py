"""Plug-in scripts, loaded as workers load them; and what keeps one from being loaded, in a line."""

import linecache
import traceback
from pathlib import Path

from millstream.chain.findings import ChainError, Finding
from millstream.local.mistakes import shown_path
from workers import loader
from workers.api import Worker
from workers.loader import LoadError


def split(text: str) -> tuple[str, str]:
    """SCRIPT.py[:Class] taken apart, as the command `millstream worker` does."""
    path, colon, class_name = text.rpartition(":")
    return (text, "") if not colon or text.endswith(".py") else (path, class_name)


def loaded(target: str) -> tuple[type[Worker], list[str]]:
    """The class of SCRIPT.py[:Class], and warnings about it. Raises ChainError."""
    script, class_name = split(target)
    try:
        return loader.load(script, class_name)
    except LoadError as error:
        raise ChainError([explained(script, error)]) from None


def explained(script: str, error: LoadError) -> Finding:
    """What keeps a script from being loaded, and the line of it where that is."""
    message = str(error).removeprefix(f"{Path(script).name}: ").removeprefix(f"{script}: ")
    cause = error.__context__
    line = _line_in(script, cause)
    where = f"{shown_path(script)}:{line}" if line else shown_path(script)
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        package = cause.name.partition(".")[0]
        what = f"there is no module {cause.name!r}"
        return Finding(where, what, f"install it (pip install {package}), or check its name")
    return Finding(where, message, trace="" if isinstance(cause, SyntaxError) else error.trace)


def _line_in(script: str, cause: BaseException | None) -> int:
    """The last line of the script on the way to an error; 0 where there is none."""
    if isinstance(cause, SyntaxError):
        return cause.lineno or 0
    linecache.checkcache()
    path = str(Path(script).resolve())
    frames = traceback.extract_tb(cause.__traceback__ if cause is not None else None)
    return next((each.lineno or 0 for each in reversed(frames) if each.filename == path), 0)
