"""Bytes in JSON: objects of the form `{"b64": "…"}`. Pure."""

import base64
from collections.abc import Sequence
from typing import Any

from broker.payload.errors import Mismatch
from broker.payload.nested import indexes, kind_of

_KEY = "b64"


def is_base64(value: object) -> bool:
    """Whether it is such an object, rather than one of inputs by name."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(_KEY), str)


def encode(data: bytes | memoryview) -> dict[str, str]:
    """The object for these bytes."""
    return {_KEY: base64.b64encode(data).decode()}


def decode_all(elements: list[Any], shape: Sequence[int], path: str) -> list[Any]:
    """Elements that `flatten` gave, with bytes in place of objects. Raises Mismatch."""
    found = list(elements)
    for number, element in enumerate(elements):
        if type(element) is not dict:
            continue
        where = path + indexes(number, shape)
        if not is_base64(element):
            raise Mismatch(f"expected BYTES, got {kind_of(element)} - at `{where}`")
        found[number] = _decode(element[_KEY], where)
    return found


def _decode(text: str, where: str) -> bytes:
    """White space between lines and lack of padding are borne with."""
    text = "".join(text.split())
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError as error:
        raise Mismatch(f"expected base64: {error} - at `{where}.{_KEY}`") from None
