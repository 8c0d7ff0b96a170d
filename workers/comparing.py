"""Whether two versions have answered a request alike. Pure; what a plug-in says is asked elsewhere.

Both answers are decoded by their content types, so that neither the order of keys nor how a number
is written makes a difference.
"""

from math import isfinite, isnan
from typing import Any

import numpy as np
from msgspec import Struct

from broker.payload.answers import encode_json
from broker.payload.bodies import decode_body
from broker.payload.errors import PayloadError
from broker.payload.tensor_arrays import array_of_part
from broker.payload.tensor_bodies import TENSORS_TYPE, unpack_tensors
from broker.wire.messages import Blob, Payload

SHOWN_CHARS = 2048
"""Of an answer, where it is shown beside another."""

MANY = 32
"""Lists of more numbers than this are compared as arrays."""


class Unreadable(Exception):
    """An answer that is not there any longer; the message says why."""


class Rule(Struct, frozen=True):
    """How answers are compared: see `ShadowConfig`."""

    how: str = "close"
    rtol: float = 0.0
    atol: float = 0.0
    key: str = ""


def read(payload: Payload, content_type: str) -> object:
    """The answer in a payload; as bytes where it is not what its content type says.

    Raises Unreadable for one that lay in memory which is gone.
    """
    if isinstance(payload, bytes):
        return _decoded(payload, content_type)
    if payload.refs:
        raise Unreadable("an answer in shared memory was lost with its worker")
    buffers: list[Any] = payload.buffers
    if payload.content_type == TENSORS_TYPE:
        return _tensors(payload, buffers)
    return _decoded(b"".join((payload.body, *buffers)), payload.content_type)


def _decoded(body: bytes, content_type: str) -> object:
    try:
        return decode_body(body, content_type)
    except PayloadError:
        return body


def _tensors(payload: Blob, buffers: list[Any]) -> object:
    try:
        parts = unpack_tensors(payload.body, buffers)
        return {part.name: array_of_part(part) for part in parts}
    except (PayloadError, ValueError):
        return b"".join((payload.body, *buffers))


def shown(answer: object) -> str:
    """An answer as people may look at it: JSON, cut."""
    try:
        text = encode_json(answer).decode("utf-8", "replace")
    except Exception as error:  # whatever an answer is, it is shown as far as it can be
        text = f"{type(answer).__name__}: {error}"
    return text[:SHOWN_CHARS]


def chosen(answer: object, key: str) -> object:
    """What of an answer is compared. Raises LookupError where it has no such key."""
    if not key:
        return answer
    if not isinstance(answer, dict) or key not in answer:
        raise LookupError(f"an answer has no key {key!r}")
    return answer[key]


def agree(stable: object, shadow: object, rule: Rule) -> bool:
    """Whether these two are alike by a rule other than the plug-in's own."""
    if rule.how == "top1":
        return _same(_top(stable), _top(shadow), 0.0, 0.0)
    if rule.how == "exact":
        return _same(stable, shadow, 0.0, 0.0)
    return _same(stable, shadow, rule.rtol, rule.atol)


def _same(a: Any, b: Any, rtol: float, atol: float) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return _same_arrays(a, b, rtol, atol)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key], rtol, atol) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and _same_lists(a, b, rtol, atol)
    return _same_plain(a, b, rtol, atol)


def _same_lists(a: Any, b: Any, rtol: float, atol: float) -> bool:
    if len(a) > MANY and (arrays := _as_arrays(a, b)) is not None:
        return _same_arrays(*arrays, rtol, atol)
    return all(_same(x, y, rtol, atol) for x, y in zip(a, b, strict=True))


def _same_plain(a: Any, b: Any, rtol: float, atol: float) -> bool:
    if _is_number(a) and _is_number(b):
        return _same_numbers(a, b, rtol, atol)
    return type(a) is type(b) and bool(a == b)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _same_numbers(a: float, b: float, rtol: float, atol: float) -> bool:
    if a == b or (isnan(a) and isnan(b)):
        return True
    return isfinite(a) and isfinite(b) and abs(a - b) <= atol + rtol * abs(a)


def _as_arrays(a: Any, b: Any) -> tuple[Any, Any] | None:
    """Two lists of numbers as arrays; None where they are anything else."""
    try:
        arrays = np.asarray(a), np.asarray(b)
    except (ValueError, OverflowError):
        return None
    return arrays if all(each.dtype.kind in "iuf" for each in arrays) else None


def _same_arrays(a: Any, b: Any, rtol: float, atol: float) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if a.dtype.kind not in "iufc" or b.dtype.kind not in "iufc":
        return bool((a == b).all())
    with np.errstate(all="ignore"):
        # In this order: numpy's tolerance is relative to the second.
        return bool(np.allclose(b, a, rtol=rtol, atol=atol, equal_nan=True))


def _top(answer: Any) -> object:
    """What an answer prefers: where its largest number is, in each row; of a dict of numbers, the
    name of it. Anything else is a label already.
    """
    if isinstance(answer, dict) and answer and all(map(_is_number, answer.values())):
        return max(answer, key=lambda name: (not isnan(answer[name]), answer[name]))
    if isinstance(answer, dict):
        return {name: _top(value) for name, value in answer.items()}
    if isinstance(answer, list | tuple | np.ndarray) and len(answer):
        try:
            rows = np.asarray(answer)
        except (ValueError, OverflowError):
            return answer
        if rows.dtype.kind in "iuf":
            return rows.argmax(axis=-1).tolist()
    return answer
