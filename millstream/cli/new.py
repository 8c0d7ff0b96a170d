"""The command `millstream new`."""
# ruff: noqa: PLC0415  # the start of the others does not wait for what this loads

import shlex
from typing import Annotated

import typer

from millstream.cli.options import flag
from millstream.cli.tables import write_line

EXAMPLE = "\b\nExample:\n  millstream new languages\n  cd languages && make test && make run"


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("new", epilog=EXAMPLE)(new)


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the project: a folder that is new or empty.")
    ],
    *,
    one_file: Annotated[
        bool, flag("--one-file", "All of it in one file, which is run by itself.")
    ] = False,
) -> int:
    """Make a project that works as it is: plug-ins, pipeline file, Procfile, tests, Makefile."""
    from millstream.new.make import ONE_FILE, PROJECT, make
    from millstream.new.name import folder_for
    from millstream.new.requirement import requirement

    folder = folder_for(name)
    values = {"name": folder.resolve().name, "millstream": requirement()}
    made = make(folder, ONE_FILE if one_file else PROJECT, values)
    write_line(f"{name}: {', '.join(made)}")
    write_line(f"Next: cd {shlex.quote(name)} && make test && make run")
    return 0
