"""What the values of options may be. Each parser returns the value or says in words why not."""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple, TypeVar

from broker.wire import log
from broker.wire.address import AddressError, parse_address
from millstream.cli.errors import CommandError, wrong

_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]+(,[0-9]+)*)?")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")
_ORIGIN = re.compile(
    r"\*|[a-z][a-z0-9+.-]*://[a-z0-9._-]+(:[0-9]+)?|[a-z]+://\[[0-9a-f:]+\](:[0-9]+)?"
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[ -~]*")
_SIZE = re.compile(r"([0-9]+) ?([KMG]?)(iB|B)?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DURATION = re.compile(r"([0-9]+|[0-9]*\.[0-9]+) ?([smhd]?)")
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST_S = 30 * 86_400

MOST_REASON_CHARS = 500
MIN_TOKEN_CHARS = 16

_T = TypeVar("_T")

MIN_ARENA_BYTES = 1 << 20
"""Below this an arena would hold a few payloads, and turn away the rest."""


@dataclass(frozen=True)
class Script:
    """SCRIPT.py[:Class] taken apart; `class_name` is "" where none is named."""

    path: str
    class_name: str


class Share(NamedTuple):
    """VERSION=SHARE taken apart."""

    version: str
    share: float


class Label(NamedTuple):
    """NAME=VERSION taken apart; `version` is "" where the label is to go."""

    name: str
    version: str


@dataclass(frozen=True)
class Rates:
    """Requests a second, in the order in which they are tried."""

    per_s: tuple[float, ...]


@dataclass(frozen=True)
class Steps:
    """Of a promotion: shares in percent, each larger than the one before."""

    shares: tuple[float, ...]


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


def app_script(text: str) -> Script:
    """An existing .py file as a whole."""
    found = script(text)
    if found.class_name:
        wrong(f"{text}: is served as a whole; `millstream worker` runs one class of it")
    return found


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


def pipeline(text: str) -> str:
    """The name of a pipeline, as an argument."""
    return _named(text, "pipeline")


def version(text: str) -> str:
    """The name of a version, as an argument."""
    return _named(text, "version")


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


def rate(text: str) -> float:
    """Requests a second."""
    number = _float(text)
    if not 0 < number <= 1e6:
        wrong(f"must be a number of requests a second, more than 0, not {text!r}")
    return number


def rates(text: str) -> Rates:
    """Several of them, with commas between."""
    return Rates(tuple(rate(each) for each in text.split(",")))


def milliseconds(text: str) -> float:
    """A time in milliseconds, of more than nothing and at most an hour."""
    number = _float(text)
    if not 0 < number <= 3_600_000:
        wrong(f"must be a number of milliseconds, more than 0, not {text!r}")
    return number


def percent(text: str) -> float:
    """A share in percent, of more than nothing."""
    number = _float(text)
    if not 0 < number <= 100:
        wrong(f"must be a number of percent, more than 0 and at most 100, not {text!r}")
    return number


def arrivals(text: str) -> str:
    """How requests of an open load come."""
    if text not in ("poisson", "constant"):
        wrong(f"must be poisson or constant, not {text!r}")
    return text


def method(text: str) -> str:
    """An HTTP method."""
    from millstream.bench.target import METHODS  # noqa: PLC0415  # for one command alone

    if text.upper() not in METHODS:
        wrong(f"must be one of {', '.join(METHODS)}, not {text!r}")
    return text.upper()


def header(text: str) -> str:
    """A line of a request's head."""
    name, colon, value = text.partition(":")
    if not colon or not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
        wrong(f"must be 'NAME: VALUE', not {text!r}")
    return f"{name}: {value.strip()}"


def text(text: str) -> str:
    """What can stand in a request's head."""
    if not _HEADER_VALUE.fullmatch(text):
        wrong(f"must be plain text in one line, not {text!r}")
    return text


def profile_format(text: str) -> str:
    """How a profile is written."""
    if text not in ("flamegraph", "speedscope", "raw"):
        wrong(f"must be flamegraph, speedscope or raw, not {text!r}")
    return text


def plot(text: str) -> str:
    """A file to draw into."""
    if not text.endswith((".svg", ".html", ".htm")):
        wrong(f"must end with .svg or .html, not {text!r}")
    return text


def seconds(text: str) -> float:
    """A duration in seconds, of more than nothing and at most a day."""
    number = _float(text)
    if not 0 < number <= 86_400:
        wrong(f"must be a number of seconds, more than 0 and at most 86400, not {text!r}")
    return number


def seconds_if_any(text: str) -> float:
    """A duration in seconds, which may be none, and at most a day."""
    number = _float(text)
    if not 0 <= number <= 86_400:
        wrong(f"must be a number of seconds, 0 to 86400, not {text!r}")
    return number


def duration(text: str) -> float:
    """90s, 10m, 1.5h or 1d; a number alone is seconds. More than nothing, at most 30 days."""
    match = _DURATION.fullmatch(text)
    number = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not 0 < number <= _MOST_S:
        wrong(f"must be a duration such as 90s, 10m or 2h, at most 30d, not {text!r}")
    return number


def share(text: str) -> Share:
    """A version and its share, which is a number in any proportion."""
    of, equals, number = text.rpartition("=")
    if not equals:
        wrong(f"{text}: must be VERSION=SHARE, such as 2=95")
    return Share(version(of), _number(number, f"{text}: the share"))


def steps(text: str) -> Steps:
    """The steps of a promotion."""
    shares = tuple(_number(part, "a step") for part in text.split(","))
    if list(shares) != sorted(set(shares)) or not 0 < shares[0] <= shares[-1] <= 100:
        wrong(f"must be growing shares in percent, such as 1,5,25,100, not {text!r}")
    return Steps(shares)


def label(text: str) -> Label:
    """A label, and the version that it is to stand for."""
    label_name, equals, of = text.partition("=")
    if not equals or not label_name:
        wrong(f"must be NAME=VERSION, or NAME= to remove the label, not {text!r}")
    return Label(label_name, name(of) if of else "")


def labels(text: str) -> str:
    """Labels with commas between, checked, as they stand."""
    for each in text.split(","):
        label(each)
    return text


def only_once(given: Iterable[tuple[str, _T]], what: str) -> dict[str, _T]:
    """By name; what is given twice is wrong."""
    found: dict[str, _T] = {}
    for key, value in given:
        if key in found:
            raise CommandError(f"{what} {key} is given twice")
        found[key] = value
    return found


def reason(text: str) -> str:
    """A line for the history."""
    if len(text) > MOST_REASON_CHARS or not text.isprintable():
        wrong(f"must be one line of at most {MOST_REASON_CHARS} characters")
    return text


def token(text: str) -> str:
    """A secret that travels in a header."""
    lack = lack_of_token(text)
    if lack:
        wrong(lack)
    return text


def state(text: str) -> str:
    """The path of a file; "" for `none`."""
    if not text or text.endswith("/"):
        wrong(f"must be a file, or none, not {text!r}")
    return "" if text == "none" else text


def lack_of_token(text: str) -> str:
    """Why this cannot be a token, without saying what it is; "" where it can."""
    if len(text) < MIN_TOKEN_CHARS:
        return f"a token has at least {MIN_TOKEN_CHARS} characters, such as `openssl rand -hex 16`"
    if not re.fullmatch(r"[!-~]+", text):
        return "a token has visible ASCII characters alone, and no spaces"
    return ""


def sticky(text: str) -> str:
    """What decides who gets which version; "" for `none`."""
    from broker.core.traffic import STICKY  # noqa: PLC0415  # for one command alone

    if text != "none" and STICKY.fullmatch(text) is None:
        wrong(f"must be header:NAME, cookie:NAME, request-id or none, not {text!r}")
    return "" if text == "none" else text


def version_or_none(text: str) -> str:
    """A version; "" for `none`."""
    return "" if text == "none" else name(text)


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


def ratio(text: str) -> float:
    """A number from 0 to 1."""
    number = _ratio(text)
    if number is None:
        wrong(f"must be a number from 0 to 1, not {text!r}")
    return number


def _ratio(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0.0 <= number <= 1.0 else None


def otel_sampler(environ: Mapping[str, str]) -> float | None:
    """The share that OTEL_TRACES_SAMPLER stands for; None where it is not set. Raises CommandError.

    A client's own decision always goes first, so that `always_on` is `parentbased_always_on`.
    """
    name = environ.get("OTEL_TRACES_SAMPLER", "").removeprefix("parentbased_")
    if not name:
        return None
    text = environ.get("OTEL_TRACES_SAMPLER_ARG", "1") if name == "traceidratio" else "1"
    if name not in ("always_on", "always_off", "traceidratio"):
        raise CommandError(f"OTEL_TRACES_SAMPLER: there is no sampler {name!r} here")
    if name == "always_off":
        return 0.0
    number = _ratio(text)
    if number is None:
        raise CommandError(f"OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1, not {text!r}")
    return number


def log_format(text: str) -> str:
    """How lines of the log look."""
    return _one_of(text, log.FORMATS)


def log_level(text: str) -> str:
    """The least level that is logged."""
    return _one_of(text.lower(), log.LEVEL_NAMES)


def _one_of(text: str, known: Collection[str]) -> str:
    if text not in known:
        wrong(f"must be one of {', '.join(known)}, not {text!r}")
    return text


def _address(text: str, *, bind: bool) -> str:
    try:
        return parse_address(text, bind=bind).text
    except AddressError as error:
        wrong(str(error))


def _named(text: str, what: str) -> str:
    from broker.config import NAME_IS, is_name  # noqa: PLC0415  # as above

    if not is_name(text):
        wrong(f"the name of a {what} must be {NAME_IS}, not {text!r}")
    return text


def _number(text: str, what: str) -> float:
    """A number, 0 or more; `what` begins the sentence that says otherwise."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not isfinite(number) or number < 0:
        wrong(f"{what} must be a number, 0 or more, not {text!r}")
    return number


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None
