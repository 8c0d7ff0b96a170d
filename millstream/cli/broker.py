"""The command `millstream broker`. What is wrong is told before the broker's code is loaded."""
# ruff: noqa: PLC0415

import os
from typing import Annotated

import typer

from broker.wire.address import default_address, needs_keys, prepare_ipc_folder
from broker.wire.keys import load_broker_keys
from millstream.cli import amounts, values
from millstream.cli.errors import CommandError
from millstream.cli.options import (
    Keys,
    LogFormat,
    LogLevel,
    NoMetrics,
    flag,
    option,
    set_up_log,
)

EXAMPLE = (
    "\b\nExample:\n"
    "  millstream broker pipelines/digits.toml --metrics-port 9100\n"
    "  millstream broker digits.toml --broker tcp://0.0.0.0:5570 --keys keys/"
)


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("broker", epilog=EXAMPLE)(broker)


def broker(
    *,
    pipelines: Annotated[
        list[str], typer.Argument(metavar="PIPELINE.toml", help="Files that define pipelines.")
    ],
    broker: Annotated[
        str | None,
        option(
            "--broker",
            values.listen_address,
            "ADDR",
            "Address to listen at, such as tcp://0.0.0.0:5570.  [default: ipc:// in a folder of "
            "this user]",
        ),
    ] = None,
    metrics_host: Annotated[
        str, option("--metrics-host", values.host, "HOST", "Where to serve the broker's metrics.")
    ] = "127.0.0.1",
    metrics_port: Annotated[
        int | None,
        option("--metrics-port", amounts.port, "PORT", "Port of GET /metrics; none without it."),
    ] = None,
    no_metrics: NoMetrics = False,
    state: Annotated[
        str | None,
        option(
            "--state",
            values.state,
            "FILE",
            "Keeps who gets which version, and its history, for the next broker; none keeps "
            "nothing.  [default: PIPELINE.traffic.db beside the first pipeline file]",
        ),
    ] = None,
    keys: Keys = None,
    insecure: Annotated[
        bool, flag("--insecure", "Listen beyond this host without keys: anybody may join.")
    ] = False,
    log_format: LogFormat = "auto",
    log_level: LogLevel = "info",
) -> int:
    """Run the broker for the pipelines in these files."""
    set_up_log(log_format, log_level)
    from broker.config import ConfigError, load_pipelines

    address = broker or default_address(os.environ)
    try:
        loaded = load_pipelines(pipelines)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    if keys:
        load_broker_keys(keys)
    elif needs_keys(address) and not insecure:
        raise CommandError(
            f"{address} lets other hosts in, so it needs keys: make them with 'millstream keys "
            "DIR', then give '--keys DIR' on each side (or --insecure, to let anybody join)"
        )
    prepare_ipc_folder(address)

    from broker.server import BrokerOptions, serve
    from broker.store import default_path

    return serve(
        BrokerOptions(
            pipelines=loaded,
            address=address,
            metrics_host=metrics_host,
            metrics_port=metrics_port,
            measured=not no_metrics,
            state=default_path(pipelines[0]) if state is None else state,
            state_optional=state is None,
            keys=keys or "",
            insecure=insecure,
        )
    )
