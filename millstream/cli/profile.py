"""The command `millstream profile`."""
# ruff: noqa: PLC0415  # the start of the others does not wait for what this loads

from typing import Annotated

import typer

from millstream.cli import amounts, values
from millstream.cli.options import Broker, Keys, client_keys, find_broker, flag, option

EXAMPLE = (
    "\b\nExample:\n"
    "  millstream profile infer\n"
    "  millstream profile infer/1 --seconds 30 --format speedscope --output infer.json"
)


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("profile", epilog=EXAMPLE)(profile)


def profile(
    *,
    worker: Annotated[
        str,
        typer.Argument(
            metavar="WORKER",
            help="As status names it: the pid, a stage, STAGE/NUMBER under its supervisor, or the "
            "begin of its id.",
        ),
    ],
    seconds: Annotated[
        float, option("--seconds", amounts.seconds, "SECONDS", "How long to record.")
    ] = 10.0,
    sampling: Annotated[int, option("--sampling", amounts.count, "N", "Samples a second.")] = 100,
    format: Annotated[
        str,
        option("--format", values.profile_format, "FORMAT", "flamegraph (SVG), speedscope or raw."),
    ] = "flamegraph",
    output: Annotated[
        str | None,
        option("--output", str, "FILE", "[default: profile-STAGE-PID.svg in this folder]"),
    ] = None,
    idle: Annotated[bool, flag("--idle", "Record what waits, too.")] = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Record where a worker on this host spends its time, while it works."""
    from millstream.profile.run import profile as record

    return record(
        find_broker(broker),
        worker,
        keys=client_keys(keys),
        seconds=seconds,
        rate=sampling,
        format=format,
        output=output or "",
        idle=idle,
    )
