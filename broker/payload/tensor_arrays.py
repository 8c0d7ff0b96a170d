"""Tensors <-> numpy arrays: what a plug-in that declares tensors is given, and what it returns.

Imported only where a plug-in declares some. BYTES are arrays of `bytes` objects, and BF16, which
numpy lacks, are FP32: exact on the way in, rounded to the nearest on the way out.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import BadBody, Mismatch
from broker.payload.nested import flatten, join_elements, pack_elements, split_elements
from broker.payload.signature import TensorSpec
from broker.payload.tensor_bodies import INLINE_BYTES, Buffer, TensorPart

_DTYPES = {
    name: np.dtype(f"<{kind.code or 'u2'}") for name, kind in DATATYPES.items() if kind.size_bytes
}
"""As values lie in memory: of BF16 these are words."""
_FP32 = np.dtype(np.float32)


class WrongOutput(ValueError):
    """A plug-in's result is not what it has declared."""


def arrays_of_parts(parts: Sequence[TensorPart], specs: Sequence[TensorSpec]) -> dict[str, Any]:
    """The arrays of a request, read-only views wherever they can be. Raises BadBody, Mismatch."""
    if [part.name for part in parts] != [spec.name for spec in specs]:
        by_name = {part.name: part for part in parts}
        _check_names(by_name, specs)
        parts = [by_name[spec.name] for spec in specs]
    arrays = {}
    for spec, part in zip(specs, parts, strict=True):
        if part.datatype != spec.datatype:
            raise Mismatch(f"{spec.name!r} must be {spec.datatype}, not {part.datatype}")
        spec.check_shape(part.shape)
        arrays[spec.name] = array_of_part(part)
    return arrays


def arrays_of_object(obj: object, specs: Sequence[TensorSpec]) -> dict[str, Any]:
    """The same, of a JSON or msgpack object of lists by name. Raises Mismatch with the path."""
    if not isinstance(obj, dict):
        raise Mismatch("expected an object of tensors by name - at `$`")
    _check_names(obj, specs)
    arrays = {}
    for spec in specs:
        path = f"$.{spec.name}"
        elements, shape = flatten(obj[spec.name], spec.shape, path)
        data = pack_elements(elements, spec.datatype, shape, path)
        arrays[spec.name] = array_of_part(TensorPart(spec.name, spec.datatype, shape, data))
    return arrays


def _check_names(given: Mapping[Any, object], specs: Sequence[TensorSpec]) -> None:
    declared = [spec.name for spec in specs]
    for name in declared:
        if name not in given:
            raise Mismatch(f"the input {name!r} is missing")
    if len(given) > len(declared):
        name = next(name for name in given if name not in declared)
        raise Mismatch(f"there is no input {name!r:.100}; declared: {', '.join(declared)}")


def array_of_part(part: TensorPart) -> Any:
    """One tensor as an array. Raises BadBody where the bytes are not what its shape says."""
    data, shape = part.data, part.shape
    assert data is not None
    if part.datatype == "BYTES":
        return _texts(part.name, data, shape)
    dtype = _DTYPES[part.datatype]
    size_bytes = dtype.itemsize * prod(shape)
    if memoryview(data).nbytes != size_bytes:
        raise BadBody(f"{part.name!r} is of {size_bytes} bytes, not {memoryview(data).nbytes}")
    if not size_bytes:
        return np.empty(shape, np.float32 if part.datatype == "BF16" else dtype)
    if part.datatype == "BOOL" and np.frombuffer(data, np.uint8).max() > 1:
        raise BadBody(f"{part.name!r}: a BOOL is 0 or 1")
    array: Any = np.frombuffer(data, dtype).reshape(shape)
    if part.datatype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    flags = array.flags
    if not flags.aligned:  # slow, and C code of plug-ins may not expect it
        array = array.copy()
        flags = array.flags
    if flags.writeable:
        flags.writeable = False
    return array


def _texts(name: str, data: Buffer, shape: Sequence[int]) -> Any:
    try:
        elements = split_elements(memoryview(data))
    except ValueError as error:
        raise BadBody(f"{name!r}: {error}") from None
    if len(elements) != prod(shape):
        raise BadBody(f"{name!r} is of {prod(shape)} elements, not {len(elements)}")
    array = np.empty(len(elements), object)
    array[:] = [bytes(element) for element in elements]
    return array.reshape(shape)


def parts_of_result(result: object, specs: Sequence[TensorSpec]) -> list[TensorPart]:
    """A result as declared: a dict of arrays (or lists, or torch tensors) by name.

    Where just one output is declared, its array alone will do. Raises WrongOutput.
    """
    if not isinstance(result, dict):
        if len(specs) != 1:
            raise WrongOutput(f"a dict of outputs is declared, not {type(result).__name__}")
        result = {specs[0].name: result}
    if len(result) != len(specs) or not all(spec.name in result for spec in specs):
        names = sorted(spec.name for spec in specs)
        raise WrongOutput(f"the outputs {names} are declared, not {list(result)}")
    return [_part(result[spec.name], spec) for spec in specs]


def _part(value: Any, spec: TensorSpec) -> TensorPart:
    if spec.datatype == "BYTES":
        array = np.asarray(value, object)
        data: Buffer = _join(array, spec)
    else:
        array = _converted(value, spec)
        is_small = array.nbytes <= INLINE_BYTES
        data = array.tobytes() if is_small else array.reshape(-1).view(np.uint8).data
    shape = list(array.shape)
    try:
        spec.check_shape(shape)
    except Mismatch as error:
        raise WrongOutput(f"output {error}") from None
    return TensorPart(spec.name, spec.datatype, shape, data)


def _converted(value: Any, spec: TensorSpec) -> Any:
    if hasattr(value, "detach"):  # of torch, which need not be imported for this
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    array = np.asarray(value)
    is_half = spec.datatype == "BF16"
    dtype = _FP32 if is_half else _DTYPES[spec.datatype]
    if array.dtype != dtype:
        if array.dtype.name == "bfloat16":  # of another package than numpy
            array = array.astype(np.float32)
        if array.size and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise WrongOutput(f"output {spec.name!r} is {spec.datatype}, not {array.dtype}")
        array = array.astype(dtype)
    # ascontiguousarray would give a scalar an axis.
    array = array if array.flags.c_contiguous else array.copy("C")
    return _rounded(array) if is_half else array


def _rounded(array: Any) -> Any:
    """FP32 to the words of the nearest BF16, ties to even; NaN stays NaN."""
    words = np.atleast_1d(array).view(np.uint32)
    rounded = (words + 0x7FFF + ((words >> 16) & 1)) >> 16
    rounded = np.where(np.isnan(np.atleast_1d(array)), (words >> 16) | 0x40, rounded)
    return rounded.astype(np.uint16).reshape(array.shape)


def _join(array: Any, spec: TensorSpec) -> bytes:
    elements = array.reshape(-1).tolist()
    if not {str, bytes}.issuperset(map(type, elements)):
        kinds = sorted({type(element).__name__ for element in elements} - {"str", "bytes"})
        raise WrongOutput(f"output {spec.name!r} is BYTES, and holds {', '.join(kinds)}")
    return join_elements([e.encode() if isinstance(e, str) else e for e in elements])
