"""JSON as TensorFlow Serving has it: NaN, Infinity and -Infinity are numbers, too.

What has none of them is read and written as any JSON is. Else it takes Python's own reader and
writer, which know these tokens, and five to ten times as long. Pure.
"""

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import msgspec

from broker.payload.limits import MAX_DEPTH
from broker.payload.tensor_bodies import Buffer
from gateway.dialect import BadRequest

T = TypeVar("T")

_UTF8_BOM = b"\xef\xbb\xbf"


def reader(kind: type[T]) -> Callable[[Buffer], T]:
    """What reads a body as an object of this type. It raises BadRequest."""
    decode = msgspec.json.Decoder(kind).decode

    def read(body: Buffer) -> T:
        if body[:3] == _UTF8_BOM:
            body = body[3:]
        try:
            return decode(body)
        except msgspec.ValidationError as error:
            _refuse(error)
        except (ValueError, RecursionError) as error:
            text = bytes(body)
            if b"NaN" not in text and b"Infinity" not in text:
                _refuse(error)
        try:
            return msgspec.convert(json.loads(str(text, "utf-8"), parse_float=_finite), kind)
        except (ValueError, RecursionError) as error:
            _refuse(error)

    return read


def write(content: Any, *, is_finite: bool) -> bytes:
    """The content as JSON; `is_finite` says that there is none of these numbers in it."""
    if is_finite:
        return msgspec.json.encode(content)
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _finite(text: str) -> float:
    """A number as it is written: `float` would make 1e999 infinite."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"a number beyond the range of a 64-bit float: {text:.40}")
    return value


def _refuse(error: Exception) -> NoReturn:
    why = f"more than {MAX_DEPTH} levels" if isinstance(error, RecursionError) else str(error)
    raise BadRequest(f"the request is not as the protocol has it: {why}") from None
