"""A mistake in a script that describes a deployment, and where things stand in such scripts."""

import inspect
import os
import sys
from typing import NamedTuple

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Mistake(Exception):
    """A script cannot be served; the message is one line: file, line, what is wrong, what to do."""


class Place(NamedTuple):
    """A line of a script."""

    file: str
    """As an absolute path; "" where there is none."""
    line: int

    def __str__(self) -> str:
        return f"{shown_path(self.file)}:{self.line}" if self.file else "here"


def caller() -> Place:
    """The line outside of this package that called it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS + os.sep):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return Place(os.path.abspath(file) if os.path.isfile(file) else "", frame.f_lineno)


def place_of(cls: type) -> Place:
    """Where a class begins; line 1 where that cannot be told."""
    # A @stage is its function to those who look for its source.
    thing = vars(cls).get("forward") if "forward" in vars(cls) else None
    source = thing.__func__ if isinstance(thing, staticmethod) else cls
    try:
        file = inspect.getsourcefile(source) or ""
        line = inspect.getsourcelines(source)[1]
    except (OSError, TypeError):
        module = sys.modules.get(cls.__module__)
        return Place(getattr(module, "__file__", None) or "", 1)
    return Place(os.path.abspath(file), line)


def shown_path(path: str) -> str:
    """A path for people: from the current folder on where it lies in there."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the current folder is gone
        return path
    return path if relative.startswith("..") else relative
