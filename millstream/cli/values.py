"""What the values of options may be. Each parser returns the value or says in words why not."""

import os
import re
from dataclasses import dataclass

from broker.wire.address import AddressError, parse_address
from millstream.cli.errors import wrong

_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]+(,[0-9]+)*)?")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")
_ORIGIN = re.compile(
    r"\*|[a-z][a-z0-9+.-]*://[a-z0-9._-]+(:[0-9]+)?|[a-z]+://\[[0-9a-f:]+\](:[0-9]+)?"
)
_SIZE = re.compile(r"([0-9]+) ?([KMG]?)(iB|B)?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

MIN_ARENA_BYTES = 1 << 20
"""Below this an arena would hold a few payloads, and turn away the rest."""


@dataclass(frozen=True)
class Script:
    """SCRIPT.py[:Class] taken apart; `class_name` is "" where none is named."""

    path: str
    class_name: str


def script(text: str) -> Script:
    """An existing .py file, and the class in it where one is named."""
    path, colon, class_name = text.rpartition(":")
    if not colon or text.endswith(".py"):  # a colon in a folder's name names no class
        path, colon, class_name = text, "", ""
    if not path.endswith(".py"):
        wrong(f"{text}: is no Python script, whose name ends with .py")
    if colon and not class_name.isidentifier():
        wrong(f"{text}: {class_name!r} is no name of a class")
    if os.path.isdir(path):
        wrong(f"{path}: is a folder, not a script")
    if not os.path.exists(path):
        from broker.config import nearest_file  # noqa: PLC0415  # only where there is an error

        wrong(f"{path}: no such file{nearest_file(path, '.py')}")
    if not os.access(path, os.R_OK):
        wrong(f"{path}: cannot be read")
    return Script(path, class_name)


def folder(text: str) -> str:
    """An existing folder."""
    if os.path.isdir(text):
        return text
    if os.path.exists(text):
        wrong(f"{text}: is no folder")
    from broker.config import did_you_mean  # noqa: PLC0415  # only where there is an error

    path = text.rstrip("/") or "/"
    parent, name = os.path.split(path)
    try:
        with os.scandir(parent or ".") as beside:
            others = [entry.name for entry in beside if entry.is_dir()]
    except OSError:
        others = []
    wrong(f"{text}: no such folder{did_you_mean(name, others)}")


def policy(text: str) -> str:
    """Which versions of a model repository to load."""
    from workers.policy import PolicyError, parse_policy  # noqa: PLC0415  # for one command alone

    try:
        parse_policy(text)
    except PolicyError as error:
        wrong(str(error))
    return text


def listen_address(text: str) -> str:
    """An address for the broker to listen at."""
    return _address(text, bind=True)


def broker_address(text: str) -> str:
    """An address at which to find the broker."""
    return _address(text, bind=False)


def name(text: str) -> str:
    """The name of a pipeline, a stage or a version."""
    from broker.config import NAME_IS, is_name  # noqa: PLC0415  # most commands need no TOML

    if not is_name(text):
        wrong(f"must be {NAME_IS}, not {text!r}")
    return text


def port(text: str) -> int:
    """A TCP port to listen at."""
    number = _whole(text)
    if number is None or not 1 <= number <= 65535:
        wrong(f"must be a port, 1 to 65535, not {text!r}")
    return number


def count(text: str) -> int:
    """A number of things, one at least."""
    number = _whole(text)
    if number is None or number < 1:
        wrong(f"must be a whole number, 1 or more, not {text!r}")
    return number


def whole(text: str) -> int:
    """A number of things, which may be none."""
    number = _whole(text)
    if number is None or number < 0:
        wrong(f"must be a whole number, 0 or more, not {text!r}")
    return number


def size(text: str) -> int:
    """A number of bytes: 1048576, 1024KiB or 1MiB."""
    match = _SIZE.fullmatch(text)
    number = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < number < 1 << 63:
        wrong(f"must be a size such as 64MiB, not {text!r}")
    return number


def arena(text: str) -> int:
    """A number of bytes for an arena, `MIN_ARENA_BYTES` at least, or 0 for none."""
    number = 0 if text == "0" else size(text)
    if 0 < number < MIN_ARENA_BYTES:
        wrong(f"must be 0 (no arena) or at least 1MiB, not {text!r}")
    return number


def seconds(text: str) -> float:
    """A duration in seconds, of more than nothing and at most a day."""
    number = _number(text)
    if not 0 < number <= 86_400:
        wrong(f"must be a number of seconds, more than 0 and at most 86400, not {text!r}")
    return number


def seconds_if_any(text: str) -> float:
    """A duration in seconds, which may be none, and at most a day."""
    number = _number(text)
    if not 0 <= number <= 86_400:
        wrong(f"must be a number of seconds, 0 to 86400, not {text!r}")
    return number


def host(text: str) -> str:
    """An address or a name of this host to listen at."""
    if _HOST.fullmatch(text) is None:
        wrong(f"must be a host such as 127.0.0.1, not {text!r}")
    return text


def origins(text: str) -> str:
    """Origins of web pages, as browsers name them, with commas between; or "*"."""
    for each in text.split(","):
        if _ORIGIN.fullmatch(each) is None:
            wrong(f"must be an origin such as https://example.org, or '*', not {each!r}")
    return text


def device(text: str) -> str:
    """auto, cpu, cuda, or cuda with a list of indices."""
    if _DEVICE.fullmatch(text) is None:
        wrong(f"must be auto, cpu, cuda or a list such as cuda:0,1, not {text!r}")
    return text


def _address(text: str, *, bind: bool) -> str:
    try:
        return parse_address(text, bind=bind).text
    except AddressError as error:
        wrong(str(error))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None
