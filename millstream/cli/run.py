"""The commands `millstream run` and `millstream export`: a script that calls `serve`."""
# ruff: noqa: PLC0415

import os
from typing import Annotated

import typer

from millstream.cli import amounts, values
from millstream.cli.errors import CommandError
from millstream.cli.options import Keys, LogFormat, LogLevel, flag, option

RUN_EXAMPLE = (
    "\b\nExample:\n"
    "  millstream run app.py --port 8000\n"
    "  millstream run app.py --reload\n"
    "  millstream run app.py -- --model small"
)
EXPORT_EXAMPLE = (
    "\b\nExample:\n  millstream export app.py --out deploy\n  cd deploy && honcho start"
)

AppScript = Annotated[
    values.Script,
    typer.Argument(
        parser=values.app_script, metavar="SCRIPT.py", help="The script that calls serve(…)."
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- ARGUMENTS]", help="What the script itself is given."),
]


def add_to(app: typer.Typer) -> None:
    """Make them commands of this program."""
    app.command("run", epilog=RUN_EXAMPLE)(run)
    app.command("export", epilog=EXPORT_EXAMPLE)(export)


def run(
    *,
    script: AppScript,
    arguments: Arguments = None,
    reload: Annotated[
        bool, flag("--reload", "Follow edits: what they touch is started anew, nothing else.")
    ] = False,
    host: Annotated[
        str | None, option("--host", values.host, "HOST", "Address to listen at.")
    ] = None,
    port: Annotated[
        int | None, option("--port", amounts.port, "PORT", "Port to listen at.  [default: 8000]")
    ] = None,
    broker: Annotated[
        str | None,
        option(
            "--broker",
            values.listen_address,
            "ADDR",
            "Where its broker listens.  [default: a socket that nobody else knows]",
        ),
    ] = None,
    keys: Keys = None,
    log_format: LogFormat = "auto",
    log_level: LogLevel = "info",
) -> int:
    """Serve what a script describes, as running it does.

    The script runs in a process of its own, up to its serve(…). Options of the other commands
    are environment variables here.
    """
    _note("HOST", host)
    _note("PORT", port)
    _note("BROKER", broker)
    _note("KEYS", keys)
    _note("LOG_FORMAT", log_format)
    _note("LOG_LEVEL", log_level)
    from millstream.local.launch import serve_until_signalled
    from millstream.local.mistakes import Mistake
    from millstream.local.record import record

    try:
        plan = record(script.path, arguments or (), os.environ)
    except Mistake as mistake:
        raise CommandError(str(mistake)) from None
    return serve_until_signalled(plan, reload_with=arguments or () if reload else None)


def _note(name: str, value: object) -> None:
    """What is said here goes before what the script says, as a variable does."""
    if value is not None:
        os.environ[f"MILLSTREAM_{name}"] = str(value)


def export(
    *,
    script: AppScript,
    arguments: Arguments = None,
    out: Annotated[
        str | None,
        option("--out", str, "DIR", "Where to write.  [default: the folder of the script]"),
    ] = None,
    force: Annotated[bool, flag("--force", "Replace files that somebody has edited, too.")] = False,
) -> int:
    """Write what a script serves as separate processes.

    That is a Procfile with its .env, the pipeline file, and units for systemd.
    """
    from millstream.local.mistakes import Mistake
    from millstream.local.record import record
    from millstream.local.writing import write_export

    try:
        plan = record(script.path, arguments or (), os.environ)
        folder = out or os.path.dirname(plan.file)
        for path in write_export(plan, folder, force=force):
            typer.echo(path)
    except Mistake as mistake:
        raise CommandError(str(mistake)) from None
    return 0
