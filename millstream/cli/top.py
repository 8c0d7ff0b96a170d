"""The command `millstream top`."""
# ruff: noqa: PLC0415  # the start of the others does not wait for what this loads

from typing import Annotated

import typer

from millstream.cli import amounts
from millstream.cli.options import Broker, Keys, client_keys, find_broker, flag, option

EXAMPLE = (
    "\b\nExample:\n"
    "  millstream top --interval 5\n"
    "  millstream top --broker tcp://10.0.0.5:5570 --keys keys/"
)


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("top", epilog=EXAMPLE)(top)


def top(
    *,
    interval: Annotated[
        float, option("--interval", amounts.seconds, "SECONDS", "Between two looks.")
    ] = 1.0,
    once: Annotated[
        bool, flag("--once", "Show it once and end, as where the output is no terminal.")
    ] = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Watch the deployment live: the chain, workers, versions, times, events, what is wrong."""
    from millstream.top.run import show_top

    return show_top(find_broker(broker), keys=client_keys(keys), interval_s=interval, once=once)
