"""torch tensors <-> a header and their bytes.

Imported only once torch itself is there or a tensor arrives. Values, dtype and shape travel;
device, gradient and memory format do not: a tensor arrives on the CPU, contiguous, in memory of its
own. (torch writes into read-only memory without asking, so a view would be a crash in waiting.)
"""

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from broker.payload.arrays import header_bytes, parse_header, refuse_many_empty
from broker.payload.errors import BadPayload, CannotTravel
from broker.payload.unwritten import Unwritten

PARALLEL_BYTES = 512 * 1024
"""From here on torch's copies are shared among its threads, and faster for that: measured with two,
600 KB took 14 µs (18 in one thread), 6 MB 250 (450). Below, waking the threads costs more."""

_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)
_DTYPES = {
    str(value).removeprefix("torch."): value
    for value in vars(torch).values()
    # torch ends the process when it is to make a quantised tensor of bytes; none is ever sent.
    if isinstance(value, torch.dtype) and not str(value).startswith(("torch.qint", "torch.quint"))
}
# Bit for bit the same values as any dtype of that size: some dtypes torch can hardly copy, and
# many of them numpy does not have.
_WORDS = {
    1: torch.uint8,
    2: torch.int16,
    4: torch.int32,
    8: torch.int64,
    16: torch.complex128,
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


def write_tensor(tensor: Any, spill_bytes: int) -> tuple[bytes, bytes | memoryview | Unwritten]:
    """Header and bytes of a strided tensor.

    From `spill_bytes` on these are a view of its memory, or Unwritten where its values do not lie
    in a row on the CPU. Raises CannotTravel for sparse, quantised, nested and meta tensors, and for
    subclasses.
    """
    if type(tensor) not in _TENSOR_TYPES:
        raise CannotTravel(type(tensor).__name__, reason="a subclass of torch.Tensor")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise CannotTravel("Tensor", reason="sparse or nested: send it to_dense(), or its parts")
    if tensor.is_quantized:
        raise CannotTravel("Tensor", reason="quantised: send it dequantize()d, or int_repr()")
    if tensor.is_meta:
        raise CannotTravel("Tensor", reason="a meta tensor has no values")
    header = _header(tensor.dtype, tuple(tensor.shape))
    size_bytes: int = tensor.nbytes
    if not size_bytes:
        return header, b""
    source = tensor.detach()
    if not (source.is_cpu and source.is_contiguous()) or source.is_conj() or source.is_neg():
        scattered = _Scattered(source, size_bytes)
        return header, scattered.tobytes() if size_bytes < spill_bytes else scattered
    data = source.reshape(-1).view(torch.uint8).numpy()
    return header, data.tobytes() if size_bytes < spill_bytes else data.data


class _Scattered:
    """The `Unwritten` of a tensor that is on a device, not contiguous, or lazily negated."""

    __slots__ = ("_source", "nbytes")

    def __init__(self, source: torch.Tensor, size_bytes: int) -> None:
        self._source = source
        self.nbytes = size_bytes

    def write_to(self, memory: memoryview) -> None:
        """See `Unwritten`. From a device, this waits until the values have been computed."""
        source = self._source
        if not (source.is_conj() or source.is_neg()):  # a copy as the dtype itself resolves those
            source = source.view(_WORDS[source.itemsize])
        torch.frombuffer(memory, dtype=source.dtype).view(source.shape).copy_(source)

    def tobytes(self) -> bytes:
        """See `Unwritten`."""
        source = self._source.cpu().resolve_conj().resolve_neg()
        return source.view(_WORDS[source.itemsize]).numpy().tobytes()


def read_tensor(header: bytes, data: bytes | memoryview) -> Any:
    """A fresh, writable tensor with a copy of `data`; raises BadPayload."""
    shape, dtype, size_bytes = _layout(header)
    if len(data) != size_bytes:
        raise BadPayload(f"a tensor of {size_bytes} bytes came with {len(data)}")
    try:
        if not size_bytes:
            return torch.empty(shape, dtype=dtype)
        if size_bytes >= PARALLEL_BYTES and copies_in_parallel():
            fresh = torch.empty(size_bytes, dtype=torch.uint8)
            fresh.copy_(from_dlpack(np.frombuffer(data, np.uint8)))
            return fresh.view(dtype).view(shape)
        return torch.frombuffer(bytearray(data), dtype=dtype).view(shape)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise BadPayload(f"no tensor: {str(error)[:200]}") from error


def copies_in_parallel() -> bool:
    """Whether torch copies out of a read-only array in several threads."""
    return _LOOKS_AT_READ_ONLY and torch.get_num_threads() > 1


def _looks_at_read_only() -> bool:
    """Whether this torch and this numpy pass a read-only array on without a copy or a warning."""
    try:
        from_dlpack(np.frombuffer(b"0", np.uint8))
    except (BufferError, RuntimeError, TypeError, ValueError):  # which it is depends on both
        return False
    return True


_LOOKS_AT_READ_ONLY = _looks_at_read_only()


def to_lists(tensor: Any) -> object:
    """A tensor as nested lists, or one of no axes as a number.

    Raises CannotTravel for what a client of JSON or msgpack could not read.
    """
    if tensor.is_complex():
        raise CannotTravel(f"Tensor of {tensor.dtype}", reason="send real and imaginary parts")
    refuse_many_empty(tensor)
    try:
        return tensor.detach().cpu().tolist()
    except (RuntimeError, TypeError, NotImplementedError) as error:  # sparse, meta, nested, …
        raise CannotTravel("Tensor", reason=str(error)[:200]) from error
