"""Request headers to values: each is checked here, and what cannot be is a `BadHeader`.

Pure. Header values come with undecodable bytes as lone surrogates, which neither JSON nor msgpack
can carry; `clean` is what makes them text.
"""

import math
import re
from zlib import crc32

from broker.wire.messages import Priority

MAX_REQUEST_ID_CHARS = 128

_PRIORITIES = {
    "high": int(Priority.HIGH),
    "normal": int(Priority.NORMAL),
    "low": int(Priority.LOW),
}
_NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SANE_ID = re.compile(rf"[!-~]{{1,{MAX_REQUEST_ID_CHARS}}}")
_ZERO_QUALITY = re.compile(r"q\s*=\s*0(\.0*)?\s*$")
_NOT_VISIBLE = re.compile(r"[^!-~]")
_NOT_PRINTABLE = re.compile(r"[^ -~]")


class BadHeader(Exception):
    """A request header has a value that it cannot have; the message is for the client."""


def timeout_s(value: str) -> float:
    """X-Timeout-Ms in seconds: a positive, finite number of milliseconds, or BadHeader."""
    value = value.strip()
    if _NUMBER.fullmatch(value):
        milliseconds = float(value)
        if 0.0 < milliseconds < math.inf:
            return milliseconds / 1000.0
    raise BadHeader("X-Timeout-Ms must be a positive number of milliseconds")


def priority(value: str) -> int:
    """X-Priority as the number that travels, or BadHeader."""
    number = _PRIORITIES.get(value.strip().lower())
    if number is None:
        raise BadHeader("X-Priority must be high, normal or low")
    return number


def request_id(value: str) -> str:
    """What may be echoed of a client's X-Request-Id: visible ASCII, capped; "" if none is left."""
    if _SANE_ID.fullmatch(value):
        return value
    return _NOT_VISIBLE.sub("", value)[:MAX_REQUEST_ID_CHARS]


def clean(value: str) -> str:
    """A header value as text that every encoding can carry."""
    if value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def response_value(value: str) -> str:
    """A value from a worker, fit for a response header: nothing that could end the line."""
    return value if value.isascii() and value.isprintable() else _NOT_PRINTABLE.sub("", value)


def accepts(value: str, encoding: str) -> bool:
    """Whether an Accept-Encoding has one, by name or by `*`, with a quality of more than none."""
    chosen = {}
    for entry in value.lower().split(","):
        name, _, parameters = entry.partition(";")
        chosen[name.strip()] = _ZERO_QUALITY.search(parameters) is None
    return chosen.get(encoding, chosen.get("*", False))


def accepts_gzip(value: str) -> bool:
    """The same for gzip."""
    return accepts(value, "gzip")


def client_number(value: str) -> int:
    """Whose fair share a request uses, from an API key or an address."""
    return crc32(value.encode("utf-8", "surrogateescape"))
