"""The command `millstream advise`."""
# ruff: noqa: PLC0415  # the start of the others does not wait for what this loads

from typing import Annotated

import typer

from millstream.cli import amounts, values
from millstream.cli.errors import CommandError
from millstream.cli.options import Broker, Keys, client_keys, find_broker, flag, option

EXAMPLE = "\b\nExample:\n  millstream advise digits --rate 200 --slo-ms 100"


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("advise", epilog=EXAMPLE)(advise)


def advise(
    *,
    pipeline: Annotated[
        str, typer.Argument(parser=values.pipeline, metavar="PIPELINE", help="Which one.")
    ],
    slo_ms: Annotated[
        float | None,
        option("--slo-ms", amounts.milliseconds, "MS", "Within this time answers are wanted."),
    ] = None,
    rate: Annotated[
        float | None,
        option(
            "--rate",
            amounts.rate,
            "N",
            "Requests a second.  [default: as they came in the last minute]",
        ),
    ] = None,
    slo_share: Annotated[
        float,
        option("--slo-share", amounts.percent, "PERCENT", "So many of all must be in time."),
    ] = 99.0,
    json: Annotated[bool, flag("--json", "The advice in JSON.")] = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Say how many workers per stage, and which batch size, a load needs."""
    if slo_ms is None:
        raise CommandError("--slo-ms is missing: within which time are answers wanted?")
    from millstream.advise.run import show_advice

    return show_advice(
        find_broker(broker),
        pipeline,
        keys=client_keys(keys),
        rate_per_s=rate or 0.0,
        slo_s=slo_ms / 1e3,
        share=slo_share / 100.0,
        as_json=json,
    )
