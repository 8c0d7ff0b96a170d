"""The program `millstream`: its commands, and mistakes as one line each.

The commands stand in files of their own. Each loads the part that it starts when it is called, so
that a worker's host needs no web server and `--help` is quick.
"""

import sys
from importlib import import_module
from typing import Annotated

import typer

from broker.wire.address import AddressError
from broker.wire.keys import KeysError
from millstream import __version__
from millstream.cli.errors import CommandError, usage_line
from millstream.cli.program import Program

_FILES = {
    "new": ("new",),
    "run": ("run", "export"),
    "mosec": ("mosec",),
    "broker": ("broker",),
    "gateway": ("gateway",),
    "worker": ("worker",),
    "tools": ("status", "call", "keys"),
    "versions": ("traffic", "rollback", "promote", "compare", "history"),
    "check": ("check",),
    "bench": ("bench",),
    "advise": ("advise",),
    "profile": ("profile",),
    "top": ("top",),
}
"""Which file has which commands, in the order of the help."""
COMMANDS = tuple(command for commands in _FILES.values() for command in commands)

app = Program(
    name="millstream",
    help="Inference pipelines: batching, delivery and rollout for your models.",
    add_completion=False,
    rich_markup_mode=None,  # plain help: no boxes, and nothing more to load
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every option of a command is also an environment variable; the command line goes first."
    " 'millstream COMMAND --help' tells more.",
)


def program() -> Program:
    """All commands, for whoever describes them."""
    _load("--help")
    return app


def run(argv: list[str]) -> int:
    """Runs one command and returns its exit code; mistakes become one line on stderr."""
    try:
        _check_command(argv)
        _load(argv[0])
        code = app(argv, prog_name="millstream", standalone_mode=False)
        return int(code or 0)
    except typer.TyperException as error:
        return _complain(usage_line(error), error.exit_code)
    except CommandError as error:
        return _complain(str(error), error.code)
    except (AddressError, KeysError) as error:
        return _complain(str(error), 2)


def _complain(line: str, code: int) -> int:
    sys.stderr.write(f"millstream: {line}\n")
    return code


def _check_command(argv: list[str]) -> None:
    word = argv[0] if argv else ""
    if word in COMMANDS or word.startswith("-"):
        return
    if not word:
        raise CommandError(f"a command is missing, one of {', '.join(COMMANDS)}; see --help")
    from broker.config import did_you_mean  # noqa: PLC0415  # only where there is an error

    hint = did_you_mean(word, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
    raise CommandError(f"no such command: {word}{hint}")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"millstream {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version),
    ] = False,
) -> None:
    pass


def _load(word: str) -> None:
    """Makes the command that is asked for one of the program's; all of them where it is an option,
    which may be --help. What one command alone needs, the others do not wait for.
    """
    for file, commands in _FILES.items():
        if (word in commands or word not in COMMANDS) and file not in _loaded:
            _loaded.add(file)
            import_module(f"millstream.cli.{file}").add_to(app)


_loaded: set[str] = set()
