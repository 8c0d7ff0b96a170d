"""Plug-in scripts, loaded as workers load them; and what keeps one from being loaded, in a line."""

import os
import re
from pathlib import Path
from types import ModuleType

from millstream.chain.findings import ChainError, Finding
from millstream.local.mistakes import shown_path
from workers import loader
from workers.api import Worker
from workers.loader import LoadError

_PLACED = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+): (?P<what>.*)", re.DOTALL)


def split(text: str) -> tuple[str, str]:
    """SCRIPT.py[:Class] taken apart, as the command `millstream worker` does."""
    path, colon, class_name = text.rpartition(":")
    return (text, "") if not colon or text.endswith(".py") else (path, class_name)


class Scripts:
    """Those that were loaded, each once, whatever number of classes is wanted of it."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        self.warnings: list[str] = []

    def plugin(self, target: str) -> type[Worker]:
        """The class of SCRIPT.py[:Class]. Raises ChainError."""
        script, class_name = split(target)
        path = os.path.realpath(script)
        try:
            if path not in self._modules:
                self._modules[path], warnings = loader.run(script)
                self.warnings += warnings
            cls, warnings = loader.plugin_of(self._modules[path], script, class_name)
        except LoadError as error:
            raise ChainError([explained(script, error)]) from None
        self.warnings += warnings
        return cls


def explained(script: str, error: LoadError) -> Finding:
    """What keeps a script from being used, and where that is."""
    cause = error.__context__
    is_plain = isinstance(cause, ModuleNotFoundError | SyntaxError)  # the line says all
    trace = "" if is_plain else error.trace
    placed = _PLACED.fullmatch(str(error))
    if placed is None:
        what = str(error).removeprefix(f"{Path(script).name}: ").removeprefix(f"{script}: ")
        return Finding(shown_path(script), what, trace=trace)
    beside = shown_path(os.path.join(os.path.dirname(script), placed["file"]))
    return Finding(f"{beside}:{placed['line']}", placed["what"], trace=trace)
