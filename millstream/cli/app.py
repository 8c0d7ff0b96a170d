"""The program `millstream`: its commands, and mistakes as one line each.

The commands stand in files of their own. Each loads the part that it starts when it is called, so
that a worker's host needs no web server and `--help` is quick.
"""

import sys
from typing import Annotated

import typer

from broker.wire.address import AddressError
from broker.wire.keys import KeysError
from millstream import __version__
from millstream.cli import (
    advise,
    bench,
    broker,
    gateway,
    mosec,
    profile,
    tools,
    top,
    versions,
    worker,
)  # fmt: skip
from millstream.cli import (
    run as run_script,
)
from millstream.cli.errors import CommandError, usage_line

COMMANDS = (
    *("run", "export"),
    *("broker", "gateway", "worker", "status", "call", "keys"),
    *("bench", "advise", "profile", "top"),
    *("traffic", "rollback", "promote", "compare", "history"),
    "mosec",
)

app = typer.Typer(
    name="millstream",
    help="Inference pipelines: batching, delivery and rollout for your models.",
    add_completion=False,
    rich_markup_mode=None,  # plain help: no boxes, and nothing more to load
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every option of a command is also an environment variable; the command line goes first."
    " 'millstream COMMAND --help' tells more.",
)


def run(argv: list[str]) -> int:
    """Runs one command and returns its exit code; mistakes become one line on stderr."""
    try:
        _check_command(argv)
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


for each in (
    run_script,
    broker,
    gateway,
    worker,
    tools,
    versions,
    bench,
    advise,
    profile,
    top,
    mosec,
):
    each.add_to(app)
