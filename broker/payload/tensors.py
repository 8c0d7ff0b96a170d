"""torch tensors <-> a header and their bytes.

Imported only once torch itself is there or a tensor arrives. Values, dtype and shape travel;
device, gradient and memory format do not: a tensor arrives on the CPU, contiguous, in memory of its
own. (torch writes into read-only memory without asking, so a view would be a crash in waiting.)
"""

from functools import lru_cache
from math import prod
from typing import Any

import torch

from broker.payload.arrays import header_bytes, parse_header
from broker.payload.errors import BadPayload, CannotTravel

_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)
_DTYPES = {
    str(value).removeprefix("torch."): value
    for value in vars(torch).values()
    if isinstance(value, torch.dtype)
}


@lru_cache(maxsize=1024)
def _header(dtype: torch.dtype, shape: tuple[int, ...]) -> bytes:
    return header_bytes(str(dtype).removeprefix("torch."), shape, False)


@lru_cache(maxsize=1024)
def _layout(header: bytes) -> tuple[tuple[int, ...], torch.dtype, int]:
    name, shape, _ = parse_header(header)
    dtype = _DTYPES.get(name)
    if dtype is None:
        raise BadPayload(f"no dtype of a tensor: {name[:40]!r}")
    return shape, dtype, dtype.itemsize * prod(shape)


def write_tensor(tensor: Any, spill_bytes: int) -> tuple[bytes, bytes | memoryview]:
    """Header and bytes of a strided tensor; from `spill_bytes` on a view, if it is on the CPU.

    Raises CannotTravel for sparse, quantised, nested and meta tensors, and for subclasses.
    """
    if type(tensor) not in _TENSOR_TYPES:
        raise CannotTravel(type(tensor).__name__, reason="a subclass of torch.Tensor")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise CannotTravel("Tensor", reason="sparse or nested: send it to_dense(), or its parts")
    if tensor.is_quantized:
        raise CannotTravel("Tensor", reason="quantised: send it dequantize()d, or int_repr()")
    if tensor.is_meta:
        raise CannotTravel("Tensor", reason="a meta tensor has no values")
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    header = _header(tensor.dtype, tuple(tensor.shape))
    if not flat.numel():
        return header, b""
    data = flat.view(torch.uint8).numpy()
    return header, data.tobytes() if data.nbytes < spill_bytes else data.data


def read_tensor(header: bytes, data: bytes | memoryview) -> Any:
    """A fresh, writable tensor with a copy of `data`; raises BadPayload."""
    shape, dtype, size_bytes = _layout(header)
    if len(data) != size_bytes:
        raise BadPayload(f"a tensor of {size_bytes} bytes came with {len(data)}")
    try:
        if not size_bytes:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise BadPayload(f"no tensor: {str(error)[:200]}") from error


def to_lists(tensor: Any) -> object:
    """A tensor as nested lists, or one of no axes as a number.

    Raises CannotTravel for what a client of JSON or msgpack could not read.
    """
    if tensor.is_complex():
        raise CannotTravel(f"Tensor of {tensor.dtype}", reason="send real and imaginary parts")
    try:
        return tensor.detach().cpu().tolist()
    except (RuntimeError, TypeError, NotImplementedError) as error:  # sparse, meta, nested, …
        raise CannotTravel("Tensor", reason=str(error)[:200]) from error
