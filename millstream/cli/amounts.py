"""Numbers as they are typed: counts, sizes, times, shares. Each function parses one option's text.

What cannot be is told by `wrong`, in words that say what can.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from millstream.cli.errors import CommandError, wrong

# Patterns, which are compiled where a value is looked at: each command loads all of them.
_SIZE = r"([0-9]+) ?([KMG]?)(iB|B)?"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DURATION = r"([0-9]+|[0-9]*\.[0-9]+) ?([smhd]?)"
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST_S = 30 * 86_400

_SAMPLERS = {"always_on": 1.0, "always_off": 0.0, "traceidratio": None}
"""Of OpenTelemetry, and the share that each takes; None: OTEL_TRACES_SAMPLER_ARG names it."""

MIN_ARENA_BYTES = 1 << 20
"""Below this an arena would hold a few payloads, and turn away the rest."""


@dataclass(frozen=True)
class Rates:
    """Requests a second, in the order in which they are tried."""

    per_s: tuple[float, ...]


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
    match = re.fullmatch(_SIZE, text)
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
    match = re.fullmatch(_DURATION, text)
    number = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not 0 < number <= _MOST_S:
        wrong(f"must be a duration such as 90s, 10m or 2h, at most 30d, not {text!r}")
    return number


def ratio(text: str) -> float:
    """A number from 0 to 1."""
    number = _ratio(text)
    if number is None:
        wrong(f"must be a number from 0 to 1, not {text!r}")
    return number


def sampling(asked: float | None, environ: Mapping[str, str]) -> tuple[float, bool] | None:
    """The share of the requests that is traced, as asked for or as OTEL_TRACES_SAMPLER has it, and
    whether a client's own decision goes first; None: nothing is traced. Raises CommandError.
    """
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if asked is not None:
        return asked, True
    given = environ.get("OTEL_TRACES_SAMPLER", "")
    if not given:
        return None
    name = given.removeprefix("parentbased_")
    if name not in _SAMPLERS:
        known = ", ".join(_SAMPLERS)
        raise CommandError(
            f"OTEL_TRACES_SAMPLER: must be {known}, or one of these after parentbased_, "
            f"not {given!r}"
        )
    share = _SAMPLERS[name]
    if share is None:
        text = environ.get("OTEL_TRACES_SAMPLER_ARG") or "1"
        share = _ratio(text)
        if share is None:
            raise CommandError(
                f"OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1, not {text!r}"
            )
    return share, name != given


def number_of(text: str, what: str) -> float:
    """A number, 0 or more; `what` begins the sentence that says otherwise."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not isfinite(number) or number < 0:
        wrong(f"{what} must be a number, 0 or more, not {text!r}")
    return number


def _ratio(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0.0 <= number <= 1.0 else None


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None
