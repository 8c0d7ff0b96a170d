"""How options are declared, each with its environment variable; and those that many share."""

import os
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from broker.wire import log
from broker.wire.address import check_ipc_folder, default_address
from broker.wire.keys import ClientKeys, load_client_keys
from millstream.cli import amounts, values

_T = TypeVar("_T")


def option(name: str, parse: Callable[[str], _T], metavar: str, help: str) -> Any:
    """An option with a value, and its environment variable."""

    def parse_text(value: str | _T) -> _T:  # typer hands defaults to the parser, too
        return parse(value) if isinstance(value, str) else value

    return typer.Option(name, envvar=_variable(name), parser=parse_text, metavar=metavar, help=help)


def flag(name: str, help: str) -> Any:
    """An option without a value; its environment variable is 1 or 0."""
    return typer.Option(name, envvar=_variable(name), help=help)


def _variable(option_name: str) -> str:
    return "MILLSTREAM_" + option_name.removeprefix("--").replace("-", "_").upper()


def find_broker(given: str | None) -> str:
    """The broker's address for one who connects; the default one must not be somebody else's."""
    if given:
        return given
    address = default_address(os.environ)
    check_ipc_folder(address)
    return address


def client_keys(folder: str | None) -> ClientKeys | None:
    """The keys in this folder, if one is given; raises KeysError."""
    return load_client_keys(folder) if folder else None


Broker = Annotated[
    str | None,
    option(
        "--broker",
        values.broker_address,
        "ADDR",
        "The broker's address, such as tcp://10.0.0.5:5570.  [default: ipc:// in a folder of "
        "this user, where the broker on this host listens]",
    ),
]
Keys = Annotated[
    str | None,
    option("--keys", str, "DIR", "Folder of keys for a broker on tcp; 'millstream keys' makes it."),
]
Arena = Annotated[
    int | None,
    option(
        "--arena",
        amounts.arena,
        "SIZE",
        "Most shared memory that one process puts large payloads in, such as 512MiB; 0 for none.  "
        "[default: an eighth of /dev/shm, at most 1GiB]",
    ),
]
NoMetrics = Annotated[
    bool,
    flag("--no-metrics", "Count nothing that only metrics show: to find out what that costs."),
]
LogFormat = Annotated[
    str,
    option(
        "--log-format",
        values.log_format,
        "FORMAT",
        "human, json, logfmt, or auto: human at a terminal and under honcho, else json.",
    ),
]
LogLevel = Annotated[
    str,
    option(
        "--log-level",
        values.log_level,
        "LEVEL",
        "debug, info, warning or error; SIGUSR2 turns debug on, and off again.",
    ),
]


def set_up_log(form: str, level: str) -> None:
    """How this process, and those that it starts, write their log."""
    log.setup(form, level)
