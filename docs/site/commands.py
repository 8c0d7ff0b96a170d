"""The reference of the command line, made of the commands themselves: every argument and option."""

import os
import re
from collections.abc import Iterator
from typing import Any

import typer

from millstream.cli import app

PAGE = "reference/commands.md"


def pages() -> dict[str, str]:
    """The one page, by its path in the site."""
    program: Any = typer.main.get_command(app.program())
    parts = [
        "# Commands",
        "Every option is also an environment variable, `--metrics-port` for one"
        " `MILLSTREAM_METRICS_PORT`; the command line goes first. What is wrong"
        " with an option, a file or a key is one line on stderr and exit code 2, before anything is"
        " loaded; where a running deployment says no, it is 1.",
        "\n".join(f"- [`millstream {name}`](#millstream-{name}): {command.help}"
                  for name, command in program.commands.items()),
    ]  # fmt: skip
    for name, command in program.commands.items():
        parts += _command(name, command)
    return {PAGE: "\n\n".join(parts) + "\n"}


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"## `millstream {name}` {{ #millstream-{name} }}"
    yield command.help
    example = _example(command.epilog or "")
    if example:
        yield f"```sh\n{example}\n```"
    parameters = [each for each in command.params if each.name != "help"]
    yield "\n".join(["| | |", "|---|---|", *map(_parameter, parameters)])


def _example(epilog: str) -> str:
    """The commands of the text below a command's help, which is not wrapped from `\\b` on."""
    _, _, text = epilog.partition("Example:\n")
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def _parameter(parameter: Any) -> str:
    words = " ".join((parameter.help or "").split())
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
    else:
        name = f"{'`, `'.join(parameter.opts)} {parameter.metavar or ''}".strip()
        words += _default(parameter, words)
    return f"| `{name}`{{ .whole }} | {_escaped(words)} |"


def _default(parameter: Any, words: str) -> str:
    value = parameter.default
    if "[default:" in words or value is None or isinstance(value, bool) or callable(value):
        return ""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return f" [default: {value}]".replace(os.path.expanduser("~"), "~") if value != "" else ""


def _escaped(words: str) -> str:
    """For a cell of a table."""
    return re.sub(r"([|<*_])", r"\\\1", words)
