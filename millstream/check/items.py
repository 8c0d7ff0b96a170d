"""What an item is, in words; how it differs from what is declared or shown by an example; and other
items like it. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from broker.payload.datatypes import DATATYPES
from broker.payload.signature import TensorSpec

_DATATYPES = {np.dtype(f"<{kind.code}").str: name for name, kind in DATATYPES.items() if kind.code}
_MOST_KEYS = 6
_ANY = -1


class Difference(NamedTuple):
    """At `path`, one has `this` and the other `that`. `is_sure`: it cannot be meant."""

    path: str
    this: str
    that: str
    is_sure: bool


def described(value: Any, depth: int = 2) -> str:
    """A value's type; of arrays dtype and shape, of dicts their keys."""
    if _is_array(value):
        kind = "" if isinstance(value, np.ndarray | np.generic) else f"{type(value).__name__} "
        return f"{kind}{_dtype(value)}{list(value.shape)}"
    if isinstance(value, dict) and depth:
        keys = [f"{key}: {described(each, depth - 1)}" for key, each in value.items()]
        more = ", …" if len(keys) > _MOST_KEYS else ""
        return "{" + ", ".join(keys[:_MOST_KEYS]) + more + "}"
    if isinstance(value, list | tuple):
        inner = f" of {described(value[0], depth - 1)}" if value and depth else ""
        return f"{type(value).__name__}[{len(value)}]{inner}"
    return type(value).__name__ if value is not None else "None"


# ------------------------------------------------------------------ differences


def from_example(item: Any, example: Any, path: str = "") -> Iterator[Difference]:
    """How an item differs in kind from the one that a plug-in was warmed up with."""
    if _is_array(item) and _is_array(example):
        if _dtype(item) != _dtype(example) or len(item.shape) != len(example.shape):
            yield Difference(path, described(item), described(example), True)
        elif tuple(item.shape) != tuple(example.shape):
            yield Difference(path, described(item), described(example), False)
    elif isinstance(item, dict) and isinstance(example, dict):
        for key in example:
            if key not in item:
                yield Difference(f"{path}[{key!r}]", "nothing", described(example[key]), True)
            else:
                yield from from_example(item[key], example[key], f"{path}[{key!r}]")
    elif isinstance(item, list | tuple) and isinstance(example, list | tuple):
        if item and example:
            yield from from_example(item[0], example[0], f"{path}[0]")
    elif item is not None and example is not None and not _alike(item, example):
        yield Difference(path, described(item), described(example), not _is_lenient(item, example))


def from_tensors(item: Any, specs: Sequence[TensorSpec]) -> Iterator[Difference]:
    """How an item differs from declared tensors."""
    if not isinstance(item, dict) and len(specs) == 1:
        item = {specs[0].name: item}
    if not isinstance(item, dict):
        wanted = ", ".join(f"{spec.name}: {_spec(spec)}" for spec in specs)
        yield Difference("", described(item), f"{{{wanted}}}", True)
        return
    for spec in specs:
        if spec.name not in item:
            yield Difference(f"[{spec.name!r}]", "nothing", _spec(spec), True)
        elif not _fits(item[spec.name], spec):
            yield Difference(f"[{spec.name!r}]", described(item[spec.name]), _spec(spec), True)


def between_specs(
    outputs: Sequence[TensorSpec], inputs: Sequence[TensorSpec]
) -> Iterator[Difference]:
    """How what one stage declares to give differs from what the next declares to take."""
    given = {spec.name: spec for spec in outputs}
    for spec in inputs:
        other = given.get(spec.name)
        if other is None:
            yield Difference(f"[{spec.name!r}]", "nothing", _spec(spec), True)
        elif other.datatype != spec.datatype or not _shapes_meet(other.shape, spec.shape):
            yield Difference(f"[{spec.name!r}]", _spec(other), _spec(spec), True)


def _fits(value: Any, spec: TensorSpec) -> bool:
    if not _is_array(value):
        return False
    if spec.datatype != "BYTES":
        wanted = "FP32" if spec.datatype == "BF16" and _dtype(value) == "float32" else spec.datatype
        if _datatype(value) != wanted:
            return False
    return _shapes_meet(value.shape, spec.shape)


def _shapes_meet(one: Sequence[int], other: Sequence[int]) -> bool:
    return len(one) == len(other) and all(
        a == b or _ANY in (a, b) for a, b in zip(one, other, strict=True)
    )


def _spec(spec: TensorSpec) -> str:
    return f"{spec.datatype}{list(spec.shape)}"


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "__getitem__")


def _dtype(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def _datatype(value: Any) -> str:
    name = _dtype(value)
    if name == "bfloat16":
        return "BF16"
    try:
        return _DATATYPES.get(np.dtype(name).newbyteorder("<").str, name)
    except TypeError:
        return name


def _alike(item: Any, example: Any) -> bool:
    numbers = (bool, int, float, np.number, np.bool_)
    if isinstance(item, numbers) and isinstance(example, numbers):
        return True
    return type(item) is type(example)


def _is_lenient(item: Any, example: Any) -> bool:
    """A list and an array are often as good as each other."""
    return any(map(_is_array, (item, example))) and any(
        isinstance(each, list | tuple | int | float) for each in (item, example)
    )


# ------------------------------------------------------------------ others like it


def companion(item: Any, number: int) -> Any:
    """An item of the same kind with other values, to stand beside it in a batch; the item itself
    where none is known to be one.
    """
    if isinstance(item, np.ndarray):
        return _other_array(item, number)
    if isinstance(item, dict):
        return {key: companion(value, number) for key, value in item.items()}
    if isinstance(item, list) and item and all(isinstance(each, np.ndarray) for each in item):
        return [companion(each, number) for each in item]
    if isinstance(item, str):
        return item[::-1]
    return item


def _other_array(array: Any, number: int) -> Any:
    chance = np.random.default_rng(number)
    if array.dtype.kind == "f":
        noise = chance.random(array.shape).astype(array.dtype)
        return np.flip(array) * np.asarray(0.5, array.dtype) + noise
    if array.dtype.kind in "iu" and array.size:
        native = array.dtype.newbyteorder("=")
        drawn = chance.integers(array.min(), array.max(), array.shape, native, endpoint=True)
        return drawn.astype(array.dtype)
    return np.flip(array)


def zeros_of(specs: Sequence[TensorSpec]) -> dict[str, Any]:
    """An item of declared tensors: zeros, of length 1 where any will do."""
    return {
        spec.name: np.zeros(
            [1 if length == _ANY else length for length in spec.shape], _numpy(spec.datatype)
        )
        if spec.datatype != "BYTES"
        else np.full([1 if length == _ANY else length for length in spec.shape], b"", object)
        for spec in specs
    }


def _numpy(datatype: str) -> Any:
    code = DATATYPES[datatype].code
    return np.dtype(f"<{code}") if code else np.dtype(np.float32)
