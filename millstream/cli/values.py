"""What the values of options may be. Each parser returns the value or says in words why not."""

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from broker.wire import log
from broker.wire.address import AddressError, parse_address
from millstream.cli.amounts import number_of
from millstream.cli.errors import CommandError, wrong

# Patterns, which are compiled where a value is looked at: each command loads all of them.
_DEVICE = r"auto|cpu|cuda(:[0-9]+(,[0-9]+)*)?"
_HOST = r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?"
_ORIGIN = r"\*|[a-z][a-z0-9+.-]*://[a-z0-9._-]+(:[0-9]+)?|[a-z]+://\[[0-9a-f:]+\](:[0-9]+)?"
_HEADER_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_HEADER_VALUE = r"[ -~]*"

MOST_REASON_CHARS = 500
MIN_TOKEN_CHARS = 16

_T = TypeVar("_T")


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
    if not colon or not re.fullmatch(_HEADER_NAME, name) or not re.fullmatch(_HEADER_VALUE, value):
        wrong(f"must be 'NAME: VALUE', not {text!r}")
    return f"{name}: {value.strip()}"


def text(text: str) -> str:
    """What can stand in a request's head."""
    if not re.fullmatch(_HEADER_VALUE, text):
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


def share(text: str) -> Share:
    """A version and its share, which is a number in any proportion."""
    of, equals, number = text.rpartition("=")
    if not equals:
        wrong(f"{text}: must be VERSION=SHARE, such as 2=95")
    return Share(version(of), number_of(number, f"{text}: the share"))


def steps(text: str) -> Steps:
    """The steps of a promotion."""
    shares = tuple(number_of(part, "a step") for part in text.split(","))
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
    if re.fullmatch(_HOST, text) is None:
        wrong(f"must be a host such as 127.0.0.1, not {text!r}")
    return text


def origins(text: str) -> str:
    """Origins of web pages, as browsers name them, with commas between; or "*"."""
    for each in text.split(","):
        if re.fullmatch(_ORIGIN, each) is None:
            wrong(f"must be an origin such as https://example.org, or '*', not {each!r}")
    return text


def device(text: str) -> str:
    """auto, cpu, cuda, or cuda with a list of indices."""
    if re.fullmatch(_DEVICE, text) is None:
        wrong(f"must be auto, cpu, cuda or a list such as cuda:0,1, not {text!r}")
    return text


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
