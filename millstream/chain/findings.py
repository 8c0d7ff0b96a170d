"""What is wrong with plug-ins or with how they are put together: where, what, and what to do. Pure.

A place is text, `infer.py:12`, that editors and terminals make a link of.
"""

import inspect
import re
from collections.abc import Iterable

from msgspec import Struct

from millstream.local.mistakes import shown_path
from workers.api import Worker


class Finding(Struct, frozen=True):
    """One of them. `trace` is the plug-in's own traceback, "" where there is none."""

    where: str
    what: str
    todo: str = ""
    trace: str = ""
    is_warning: bool = False

    def __str__(self) -> str:
        """In one line."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.todo}" if self.todo else text

    @property
    def at_length(self) -> str:
        """With the traceback below."""
        return f"{self}\n{self.trace.rstrip()}" if self.trace else str(self)


class ChainError(Exception):
    """No chain can be made of what was given."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__("\n".join(each.at_length for each in self.findings))


def place_of_hook(cls: type[Worker], hook: str) -> str:
    """Where a method of a class is defined."""
    function = inspect.unwrap(getattr(cls, hook))
    code = getattr(function, "__code__", None)
    return f"{shown_path(code.co_filename)}:{code.co_firstlineno}" if code else cls.__name__


def place_in(path: str, text: str, words: str) -> str:
    """The first line of a file that has these words, or the file."""
    for number, line in enumerate(text.splitlines(), start=1):
        if re.search(rf"(?<![\w.-]){re.escape(words)}(?![\w.-])", line.partition("#")[0]):
            return f"{shown_path(path)}:{number}"
    return shown_path(path)
