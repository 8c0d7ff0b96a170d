"""HTTP bodies -> objects: what the first stage does with a body unless its plug-in decodes itself.

    application/json, */*+json, no type   objects, by RFC 8259 alone: no NaN, no lone surrogates; of
                                          keys that occur twice the last one counts
    application/msgpack and its aliases   objects; of the ext types only the standard timestamp,
                                          which becomes a datetime
    application/vnd.millstream.objects    objects, arrays and tensors among them, as `objects` packs
                                          them with nothing apart
    text/*                                str, by the charset that the type names (else UTF-8)
    multipart/form-data                   dict, see `multipart`
    anything else                         bytes

Limits: `MAX_DEPTH` levels, integers of 64 bits: what every stage can pass on. The way back,
`encode_body`, is in `answers` and offered here beside its counterpart.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from broker.payload.answers import encode_body
from broker.payload.errors import BadBody, BadPayload, UnsupportedType
from broker.payload.limits import (
    MAX_DEPTH,
    MAX_INT,
    MIN_INT,
    has_big_int,
    is_too_deep,
    msgpack_may_be_deep,
)
from broker.payload.media_types import MSGPACK_TYPES, OBJECTS_TYPE, parse_media_type
from broker.payload.multipart import decode_multipart
from broker.payload.objects import unpack
from broker.payload.text import decode_text

__all__ = ["decode_body", "encode_body"]

_Decoder: TypeAlias = Callable[[bytes], object]

_UTF8_BOM = b"\xef\xbb\xbf"
_JSON_CHARSETS = frozenset(("utf-8", "utf8", "us-ascii", "ascii"))
# Maps every digit to 0, so that a search for one string finds any run of digits.
_DIGITS_TO_ZERO = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
# The shortest integer beyond 64 bits has as many digits: -9223372036854775809.
_LONG_RUN = b"0" * 19
_TOO_DEEP = f"more than {MAX_DEPTH} levels of nesting"


def decode_body(body: bytes | bytearray | memoryview, content_type: str) -> object:
    """The object that `body` holds by its content type ("" where the request names none).

    Raises BadBody where the body is not what the type says, and UnsupportedType for a charset that
    is unknown (for JSON: any but UTF-8) and for a content type that is none.
    """
    decoder = _decoder_for(content_type)
    return decoder(body if type(body) is bytes else bytes(body))


@lru_cache(maxsize=256)
def _decoder_for(content_type: str) -> _Decoder:
    if not content_type.strip():
        return _decode_json
    kind, parameters = parse_media_type(content_type)
    if kind == "application/json" or kind.endswith("+json"):
        charset = parameters.get("charset", "utf-8")
        if charset.lower() not in _JSON_CHARSETS:
            raise UnsupportedType(f"JSON is UTF-8, not {charset[:40]!r}")
        return _decode_json
    if kind in _BINARY:
        return _BINARY[kind]
    if kind.startswith("text/"):
        charset = parameters.get("charset", "utf-8")
        return lambda body: decode_text(body, charset)
    if kind == "multipart/form-data":
        return lambda body: decode_multipart(body, parameters)
    return _as_they_are


def _as_they_are(body: bytes) -> bytes:
    return body


_json_objects = msgspec.json.Decoder().decode


def _decode_json(body: bytes) -> object:
    if body.startswith(_UTF8_BOM):
        body = body[len(_UTF8_BOM) :]
    try:
        obj = _json_objects(body)
    except (ValueError, RecursionError) as error:
        raise BadBody(_json_fault(body, error)) from error
    size = len(body)
    if size > MAX_DEPTH and body.count(b"[") + body.count(b"{") > MAX_DEPTH and is_too_deep(obj):
        raise BadBody(f"JSON: {_TOO_DEEP}")
    has_long_run = size >= 19 and _LONG_RUN in body.translate(_DIGITS_TO_ZERO)
    if has_long_run and has_big_int(obj):  # else it is in a text, or behind a decimal point
        raise BadBody(f"JSON: an integer outside {MIN_INT} to {MAX_INT} (64 bits)")
    return obj


def _json_fault(body: bytes, error: Exception) -> str:
    """What to tell the client: the library's words name the place, but not always the fault."""
    text = str(error).removeprefix("JSON is malformed: ")
    if isinstance(error, RecursionError):
        text = _TOO_DEEP
    elif not body.strip():
        text = "the body is empty"
    elif "Integer value out of range" in text:
        text = f"an integer outside {MIN_INT} to {MAX_INT} (64 bits): {text}"
    elif "out of range" in text:
        text = f"a number beyond the range of a 64-bit float: {text}"
    elif "surrogate" in text or ("truncated" in text and rb"\ud" in body.lower()):
        text = f"invalid unicode (half of a surrogate pair), or cut off: {text}"
    elif "invalid character" in text and (b"NaN" in body or b"Infinity" in body):
        text = f"{text}; NaN and Infinity are not JSON"
    return f"JSON: {text}"


def _refuse_ext(code: int, _data: memoryview) -> object:
    raise BadBody(f"msgpack: ext type {code} is not supported")


_msgpack_objects = msgspec.msgpack.Decoder(ext_hook=_refuse_ext).decode
# Proves that every length in the body is honest, before a list is made as long as its header says.
_skim = msgspec.msgpack.Decoder(msgspec.Raw).decode


def _decode_msgpack(body: bytes) -> object:
    try:
        _skim(body)
        obj = _msgpack_objects(body)
    except BadBody:
        raise
    except RecursionError as error:
        raise BadBody(f"msgpack: {_TOO_DEEP}") from error
    except (ValueError, TypeError, OverflowError) as error:
        text = str(error) if body else "the body is empty"
        raise BadBody(f"msgpack: {text}") from error
    if msgpack_may_be_deep(body) and is_too_deep(obj):
        raise BadBody(f"msgpack: {_TOO_DEEP}")
    return obj


def _decode_objects(body: bytes) -> object:
    try:
        return unpack(body)
    except BadPayload as error:
        text = str(error) if body else "the body is empty"
        raise BadBody(f"{OBJECTS_TYPE}: {text}") from error
    except ImportError as error:
        raise UnsupportedType(f"{OBJECTS_TYPE}: tensors are not read here: {error}") from error


_BINARY: dict[str, _Decoder] = {
    **dict.fromkeys(MSGPACK_TYPES, _decode_msgpack),
    OBJECTS_TYPE: _decode_objects,
}
