"""Content-Type and Accept: what their text says, nothing of bodies.

Both come from clients as they like to write them: any case, quoted or not, with spaces. What is no
media type at all (no slash, `*/*` as the type of a body) is refused rather than guessed at.
"""

import re
from functools import lru_cache

from broker.payload.errors import UnsupportedType

JSON_TYPE = "application/json"
BYTES_TYPE = "application/octet-stream"
MSGPACK_TYPES = ("application/msgpack", "application/x-msgpack", "application/vnd.msgpack")
OBJECTS_TYPE = "application/vnd.millstream.objects"
"""What travels between two stages, in one body: msgpack whose ext types keep arrays, tensors,
tuples and times as they are (see `objects`)."""

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_MEDIA_TYPE = re.compile(rf"\s*({_TOKEN})/({_TOKEN})\s*(?:;|\Z)")
# `; name=token` or `; name="quoted"`, of which a backslash escapes only a quote or a backslash:
# file names of Windows come with single ones.
# All repeats are possessive: a header of 16 KiB must not make this quadratic.
_PARAMETER = re.compile(
    rf';?\s*+({_TOKEN})\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"\s*+|([^;"]*+))(?=;|\Z)', re.DOTALL
)
_ESCAPED = re.compile(r'\\(["\\])')
_NAMED_RANGES = frozenset((*MSGPACK_TYPES, OBJECTS_TYPE))


def parse_media_type(text: str) -> tuple[str, dict[str, str]]:
    """The type in lower case and its parameters, of which the first of a name counts.

    Raises UnsupportedType for what is no media type; broken parameters are passed over.
    """
    match = _MEDIA_TYPE.match(text)
    if match is None or "*" in match.group(0):
        raise UnsupportedType(f"{text[:100]!r} is no content type")
    kind = f"{match.group(1)}/{match.group(2)}".lower()
    return kind, parse_parameters(text[match.end() :])


def parse_parameters(text: str) -> dict[str, str]:
    """`a=1; b="x"` as a dict with lower-case names; ends at the first thing that is no such."""
    parameters: dict[str, str] = {}
    at = 0
    while match := _PARAMETER.match(text, at):
        name, quoted, plain = match.groups()
        value = plain.strip() if quoted is None else _ESCAPED.sub(r"\1", quoted)
        parameters.setdefault(name.lower(), value)
        at = match.end()
    return parameters


# Clients send few different ones; a hostile one fills 256 entries of a header's length.
@lru_cache(maxsize=256)
def choose_answer_type(accept: str) -> str:
    """The type of an answer to a client that accepts this: JSON, `OBJECTS_TYPE`, or one of
    `MSGPACK_TYPES`.

    Others than JSON only where the client names them, and wants them no less. A client that accepts
    none gets JSON all the same: an answer it can look at beats a refusal after the work is done.
    """
    json_quality: dict[int, float] = {}  # by how exactly the range names it
    named, named_quality = "", 0.0
    for entry in accept.split(","):
        name, _, rest = entry.partition(";")
        name = name.strip().lower()
        quality = _quality(rest)
        if name in _NAMED_RANGES and quality > named_quality:
            named, named_quality = name, quality
        precision = {JSON_TYPE: 2, "application/*": 1, "*/*": 0}.get(name)
        if precision is not None:
            json_quality[precision] = quality
    wants_json = json_quality[max(json_quality)] if json_quality else 0.0
    return named if named and named_quality >= wants_json else JSON_TYPE


def _quality(parameters: str) -> float:
    text = parse_parameters(parameters).get("q", "1")
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0.0 <= quality <= 1.0 else 0.0
