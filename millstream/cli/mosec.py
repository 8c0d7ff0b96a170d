"""The command `millstream mosec`: runs a script that was written for MOSEC."""
# ruff: noqa: PLC0415

import os
import sys
from typing import Annotated

import typer

from millstream.cli import values
from millstream.cli.errors import CommandError

EXAMPLE = (
    "\b\nExample:\n"
    "  millstream mosec server.py --port 8000 --timeout 5000\n"
    "  millstream mosec server.py --help"
)


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command("mosec", epilog=EXAMPLE, context_settings=settings)(mosec)


def mosec(
    *,
    script: Annotated[
        values.Script,
        typer.Argument(parser=values.script, metavar="SCRIPT.py", help="What makes a Server."),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OPTIONS OF MOSEC, OR OF THE SCRIPT]",
            help="--port, --timeout, … as with MOSEC; SCRIPT.py --help lists them.",
        ),
    ] = None,
) -> int:
    """Run a script that was written for MOSEC; its `from mosec import …` means millstream.mosec."""
    if script.class_name:
        raise CommandError(f"{script.path}: the script is run, so no class of it is named")
    import runpy

    from millstream.mosec import alias, server

    alias.take_over()
    sys.argv = [script.path, *(options or [])]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script.path)))
    runpy.run_path(script.path, run_name="__main__")
    if not server.has_run:
        raise CommandError(
            f"{script.path}: has ended without running a Server; "
            'it needs server.run() below `if __name__ == "__main__":`'
        )
    return 0
