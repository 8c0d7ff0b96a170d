"""What is checked where nothing is named: what the Procfile of this folder starts, or app.py."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from millstream.cli.errors import CommandError

_KINDS = {"broker": ".toml", "worker": ".py"}


def targets_here() -> list[str]:
    """Pipeline files and scripts. Raises CommandError where there are none."""
    try:
        found = list(dict.fromkeys(started_by(Path("Procfile").read_text())))
    except FileNotFoundError:
        found = ["app.py"] if Path("app.py").exists() else []
    if not found:
        raise CommandError(
            "what is to be checked? Name a pipeline file and its scripts, or a script that calls "
            "serve; there is no Procfile here that does"
        )
    return found


def started_by(procfile: str) -> Iterator[str]:
    """The files that its brokers and workers are given."""
    for line in procfile.splitlines():
        if line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line.partition(":")[2])
        except ValueError:
            continue
        for command, suffix in _KINDS.items():
            if command in words:
                rest = words[words.index(command) + 1 :]
                yield from (
                    word for word in rest if suffix in (word[-len(suffix) :], _script(word))
                )


def _script(word: str) -> str:
    """The suffix of SCRIPT.py:Class without its class."""
    path, colon, _ = word.rpartition(":")
    return path[-3:] if colon else ""
