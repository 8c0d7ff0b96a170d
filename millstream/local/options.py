"""The options of `serve`: those of the commands that it starts, by the names that they have there.

Pure. An environment variable `MILLSTREAM_<OPTION>` goes before what the script says, as it goes
before a file: then the option is left to the command, which reads that variable.
"""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from millstream.local.mistakes import Mistake, Place

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000
DEFAULT_DRAIN_S = 2.0
"""For what is held when the end is asked for. With it all have ended within three seconds."""


class Options(TypedDict, total=False):
    """See `millstream gateway --help` and `millstream broker --help`."""

    host: str
    port: int
    grpc_port: int
    uds: str
    cors_origin: str | Sequence[str]
    compress: str | int
    admin_token: str
    admin_token_file: str
    max_body: str | int
    header_timeout: float
    body_timeout: float
    keep_alive: float
    slow: float
    drain: float
    access_log: bool
    trace_sample: float
    metrics_host: str
    metrics_port: int
    state: str
    insecure: bool
    broker: str
    keys: str
    arena: str | int
    no_metrics: bool
    log_format: str
    log_level: str


class Chosen(NamedTuple):
    """What is given to whom: arguments, and variables for what no list of processes may show."""

    gateway: tuple[str, ...]
    broker: tuple[str, ...]
    everybody: tuple[str, ...]
    gateway_env: dict[str, str]
    host: str
    port: int
    uds: str
    broker_address: str
    """"" leaves it to who starts them."""
    drain_s: float


_GATEWAY = (
    "host", "port", "grpc_port", "uds", "cors_origin", "compress", "admin_token_file", "max_body",
    "header_timeout", "body_timeout", "keep_alive", "slow", "drain", "access_log", "trace_sample",
    "arena", "no_metrics",
)  # fmt: skip
_BROKER = ("metrics_host", "metrics_port", "state", "insecure", "no_metrics")
_EVERYBODY = ("keys", "log_format", "log_level")
_PATHS = ("uds", "admin_token_file", "state", "keys")
_ELSEWHERE = ("broker", "admin_token")
NAMES = tuple(dict.fromkeys((*_GATEWAY, *_BROKER, *_EVERYBODY, *_ELSEWHERE)))


def choose(options: Mapping[str, Any], environ: Mapping[str, str], place: Place) -> Chosen:
    """What the roles are told, and what must be known of it here. Raises Mistake."""
    for name, value in options.items():
        if name not in NAMES:
            nearest = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise Mistake(f"{place}: serve has no option {name!r}{hint}")
        _check(name, value, place)
    given = {
        name: _absolute(name, value)
        for name, value in options.items()
        if value is not None and value is not False and not environ.get(variable(name))
    }
    known = _Known({**given, **_from(environ)}, place)
    token = given.get("admin_token")
    return Chosen(
        gateway=_arguments(given, _GATEWAY),
        broker=_arguments(given, _BROKER),
        everybody=_arguments(given, _EVERYBODY),
        gateway_env={variable("admin_token"): token} if token else {},
        host=known.text("host") or DEFAULT_HOST,
        port=int(known.number("port", DEFAULT_PORT)),
        uds=known.text("uds"),
        broker_address=known.text("broker"),
        drain_s=known.number("drain", DEFAULT_DRAIN_S),
    )


def _absolute(name: str, value: Any) -> Any:
    """A path as each process finds it, wherever it is started."""
    is_path = name in _PATHS and not (name == "state" and value == "none")
    return os.path.abspath(value) if is_path else value


def variable(name: str) -> str:
    """The environment variable of an option."""
    return f"MILLSTREAM_{name.upper()}"


def _from(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[variable(name)] for name in NAMES if environ.get(variable(name))}


def _arguments(given: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    arguments: list[str] = []
    for name in names:
        if name not in given:
            continue
        flag, value = f"--{name.replace('_', '-')}", given[name]
        if value is True:
            arguments.append(flag)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            arguments += [word for each in value for word in (flag, str(each))]
        else:
            arguments += [flag, str(value)]
    return tuple(arguments)


_NUMBERS = ("port", "grpc_port", "metrics_port", "drain", "slow", "keep_alive", "trace_sample",
            "header_timeout", "body_timeout")  # fmt: skip
_FLAGS = ("access_log", "insecure", "no_metrics")


def _check(name: str, value: object, place: Place) -> None:
    """Whether it may be one; what it means is for the commands to say."""
    if value is None:
        return
    if name in _FLAGS:
        fits = isinstance(value, bool)
    elif name in _NUMBERS:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif name == "cors_origin":
        fits = isinstance(value, str | Sequence)
    else:
        fits = isinstance(value, str | int) and not isinstance(value, bool)
    if not fits:
        raise Mistake(f"{place}: {name} = {value!r:.80} will not do")


class _Known(NamedTuple):
    """Options that are needed here, too, as the environment or the script has them."""

    values: Mapping[str, Any]
    place: Place

    def text(self, name: str) -> str:
        return str(self.values.get(name) or "")

    def number(self, name: str, default: float) -> float:
        text = str(self.values.get(name, default))
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            return float(text)
        raise Mistake(f"{self.place}: {name} must be a number, not {text!r:.80}")
