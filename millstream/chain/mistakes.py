"""What is wrong with plug-ins or with how they are put together: where, what, and what to do. Pure.

A place is text, `infer.py:12`, that editors and terminals make a link of.
"""

import inspect
import os
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from workers.api import Worker


class Mistake(Struct, frozen=True):
    """One of them. `trace` is the plug-in's own traceback, "" where there is none."""

    where: str
    what: str
    todo: str = ""
    trace: str = ""

    def __str__(self) -> str:
        """In one line."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.todo}" if self.todo else text


class ChainError(Exception):
    """No chain can be made of what was given."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(map(_at_length, self.mistakes)))


def _at_length(mistake: Mistake) -> str:
    return f"{mistake}\n{mistake.trace.rstrip()}" if mistake.trace else str(mistake)


def place_of(cls: type[Worker]) -> str:
    """Where a class is defined."""
    try:
        return f"{_shown(inspect.getsourcefile(cls))}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):  # made at a prompt, or by another class
        return place_of_hook(cls, "forward")


def place_of_hook(cls: type[Worker], hook: str) -> str:
    """Where a method of a class is defined."""
    function = inspect.unwrap(getattr(cls, hook))
    code = getattr(function, "__code__", None)
    return f"{_shown(code.co_filename)}:{code.co_firstlineno}" if code else cls.__name__


def folder_of(cls: type[Worker]) -> Path:
    """The folder of the script that defines a class; the current one where nobody knows."""
    try:
        return Path(inspect.getfile(cls)).resolve().parent
    except (OSError, TypeError):
        return Path.cwd()


def place_in(path: str, text: str, words: str) -> str:
    """The first line of a file that has these words, or the file."""
    for number, line in enumerate(text.splitlines(), start=1):
        if re.search(rf"(?<![\w.-]){re.escape(words)}(?![\w.-])", line.partition("#")[0]):
            return f"{_shown(path)}:{number}"
    return _shown(path)


def _shown(path: str | None) -> str:
    """A path as short as it can be said."""
    if path is None:
        return "?"
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
