"""A batch onto the device in one copy, and results back from it, with nobody waiting who need not.

What goes to or comes from a CUDA device passes through pinned memory, which the device copies by
itself, on streams of their own beside the one that computes: while a batch is computed the next can
be stacked and copied. Pinned memory is dear to get, so buffers of it are used in turn.

Everywhere else the same calls make plain copies. Imports torch, so nothing imports this before a
plug-in asks for it; knows nothing of the runtime.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from math import prod
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from broker.payload.tensors import PARALLEL_BYTES, copies_in_parallel

Item: TypeAlias = np.ndarray[Any, Any] | torch.Tensor

_MIN_BUFFER_BYTES = 64 * 1024


class Staging:
    """What one plug-in needs to use its device; from any thread, in any stream."""

    def __init__(self, device: str) -> None:
        """`device` is as torch names it: "cpu", "cuda:0". Raises RuntimeError if there is none."""
        self._device = torch.device(device)
        self._lanes = _Lanes(self._device) if self._device.type == "cuda" else None

    def to_device(self, batch: Sequence[Any], dtype: torch.dtype | None = None) -> torch.Tensor:
        """Items of one shape and dtype, stacked along a new first axis, on the device.

        An item is an array, a tensor, or what numpy makes an array of. Each is copied once on this
        host, so that all of them may be let go of at once. `dtype` is what the values are to be
        converted to, on the device, if that is not what they are. Work that is given to the current
        stream after this call finds the values there. Raises ValueError where the batch is empty,
        and for the first item that differs or has a dtype that torch lacks.
        """
        items, shape, source_dtype = _examine(batch)
        if self._lanes is not None and 0 not in shape:
            return self._lanes.up(items, shape, source_dtype, dtype or source_dtype)
        stacked = torch.empty(shape, dtype=source_dtype)
        _fill(stacked, items)
        return stacked.to(self._device, dtype or source_dtype)

    async def from_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the CPU, detached: itself if it is there already.

        It must not be written into until it has come. Work of the current stream that was given to
        it before this call is waited for without holding up the event loop, and raises here what
        went wrong in it.
        """
        tensor = tensor.detach()
        if self._lanes is None or not tensor.is_cuda or not tensor.numel():
            return tensor.cpu()
        return await self._lanes.down(tensor)


def _examine(batch: Sequence[Any]) -> tuple[list[Item], tuple[int, ...], torch.dtype]:
    """The items as arrays and tensors, the shape of them all stacked, and their dtype."""
    if not batch:
        raise ValueError("an empty batch has no shape")
    items = [item if _is_item(item) else np.asarray(item) for item in batch]
    first = items[0]
    shape, dtype = first.shape, first.dtype
    for number, item in enumerate(items):
        if item.dtype == dtype and item.shape == shape:
            continue
        # Arrays of the other byte order, and arrays beside tensors, differ in the name alone.
        if item.shape != shape or _torch_dtype(item, number) != _torch_dtype(first, 0):
            raise ValueError(
                f"item {number} of the batch is of shape {tuple(item.shape)} and dtype {item.dtype}"
                f"; expected {tuple(shape)} and {dtype}, as item 0 is"
            )
    return items, (len(items), *shape), _torch_dtype(first, 0)


def _is_item(value: object) -> bool:
    # To ask torch whether something is a tensor takes longer than all else that is asked here.
    return type(value) is np.ndarray or isinstance(value, np.ndarray | torch.Tensor)


def _torch_dtype(item: Item, number: int) -> torch.dtype:
    """Raises ValueError that names the item by its number."""
    dtype = item.dtype if isinstance(item.dtype, torch.dtype) else _counterpart(item.dtype)
    if dtype is None:
        raise ValueError(
            f"item {number} of the batch is of dtype {item.dtype}: torch has none such"
        )
    return dtype


@lru_cache(maxsize=64)
def _counterpart(dtype: np.dtype[Any]) -> torch.dtype | None:
    """torch's dtype of the same values, which it has in this machine's byte order alone."""
    try:
        return torch.from_numpy(np.empty(0, dtype.newbyteorder("="))).dtype
    except TypeError:
        return None


def _fill(stacked: torch.Tensor, items: list[Item]) -> None:
    """Copies each item into its row."""
    if not any(isinstance(item, np.ndarray) for item in items):
        torch.stack([_on_host(item) for item in items], out=stacked)
        return
    rows = stacked.numpy()
    in_parallel = stacked.nbytes >= PARALLEL_BYTES * len(items) and copies_in_parallel()
    for number, item in enumerate(items):
        if not isinstance(item, np.ndarray):
            stacked[number].copy_(_on_host(item))
        elif in_parallel and item.flags.c_contiguous and item.dtype.isnative:
            stacked[number].copy_(from_dlpack(item))
        else:
            rows[number] = item


def _on_host(tensor: Any) -> torch.Tensor:
    host: torch.Tensor = tensor.detach().cpu()
    return host


class Event(Protocol):
    """The end of a copy by the device, such as a torch.cuda.Event."""

    def synchronize(self) -> object:
        """Wait for it; raises what went wrong on the device."""


M = TypeVar("M")


class Buffer(Generic[M]):
    """Memory of the host that the device copies from, or to, until `copied`."""

    __slots__ = ("copied", "memory", "size_bytes")

    def __init__(self, memory: M, size_bytes: int) -> None:
        self.memory = memory
        self.size_bytes = size_bytes
        self.copied: Event | None = None


class Turns(Generic[M]):
    """Buffers that are used in turn, from any thread; two at least, so that one can be filled while
    the device copies the other, and as many as were ever taken at once.
    """

    def __init__(self, make: Callable[[int], M]) -> None:
        """`make` gets memory of so many bytes."""
        self._make = make
        self._given: deque[Buffer[M]] = deque()  # the one whose copy began first is on the left
        self._unmade = 2

    def take(self, size_bytes: int) -> Buffer[M]:
        """A buffer of that size at least, of which the device is done. Give it back.

        Raises what went wrong in the copy that it was last given back with.
        """
        if self._unmade > 0:
            self._unmade -= 1
            return self._new(size_bytes)
        try:
            buffer = self._given.popleft()
        except IndexError:
            return self._new(size_bytes)
        if buffer.copied is not None:
            buffer.copied.synchronize()
            buffer.copied = None
        return buffer if buffer.size_bytes >= size_bytes else self._new(size_bytes)

    def give(self, buffer: Buffer[M], copied: Event) -> None:
        """Take a buffer back that is free once `copied` has happened."""
        buffer.copied = copied
        self._given.append(buffer)

    def _new(self, size_bytes: int) -> Buffer[M]:
        # Powers of two: batches of all sizes soon find buffers that are large enough.
        size_bytes = max(_MIN_BUFFER_BYTES, 1 << (size_bytes - 1).bit_length())
        return Buffer(self._make(size_bytes), size_bytes)


class _Lanes:
    """The ways to one CUDA device and back."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # One each way: devices copy both ways at once, and neither way waits for the other.
        self._up = _stream(device)
        self._down = _stream(device)
        self._up_turns = Turns(_pinned)
        self._down_turns = Turns(_pinned)
        self._waiters = ThreadPoolExecutor(thread_name_prefix="from-device")

    def up(
        self, items: list[Item], shape: tuple[int, ...], source: torch.dtype, target: torch.dtype
    ) -> torch.Tensor:
        """See `Staging.to_device`; `shape` is that of the batch, and not empty."""
        buffer = self._up_turns.take(source.itemsize * prod(shape))
        stacked = _cut(buffer.memory, shape, source)
        _fill(stacked, items)
        computing = torch.cuda.current_stream(self._device)
        copied = _event()
        # The memory on the device is of the copying stream as well: were it of the computing one,
        # the copy would have to wait for whatever had it before.
        with torch.cuda.stream(self._up):
            raw = stacked.to(self._device, non_blocking=True)
            copied.record(self._up)
            tensor = raw.to(target)
        self._up_turns.give(buffer, copied)
        computing.wait_stream(self._up)
        tensor.record_stream(computing)  # the allocator must not reuse it before that is done
        return tensor

    async def down(self, tensor: torch.Tensor) -> torch.Tensor:
        """See `Staging.from_device`; the tensor is on the device and not empty."""
        buffer = self._down_turns.take(tensor.nbytes)
        landed = _cut(buffer.memory, tuple(tensor.shape), tensor.dtype)
        # A thread that waits for it sleeps rather than spins.
        copied = _event(blocking=True)
        self._down.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._down):
            # A lazy conjugate would be resolved on this side, after a copy that nobody waited for.
            landed.copy_(tensor.resolve_conj().resolve_neg(), non_blocking=True)
            copied.record(self._down)
        tensor.record_stream(self._down)  # should this be cancelled, and the tensor let go of

        def collect() -> torch.Tensor:
            copied.synchronize()
            return landed.clone()  # in memory that is not pinned, and not used again

        try:
            return await asyncio.get_running_loop().run_in_executor(self._waiters, collect)
        finally:
            self._down_turns.give(buffer, copied)


def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # as torch ships it


def _event(*, blocking: bool = False) -> torch.cuda.Event:
    return torch.cuda.Event(blocking=blocking)  # type: ignore[no-untyped-call]  # likewise


def _pinned(size_bytes: int) -> torch.Tensor:
    # Memory that was made in inference mode could not be written into outside of it.
    with torch.inference_mode(False):
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)


def _cut(memory: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """The beginning of a buffer as a tensor."""
    return memory[: dtype.itemsize * prod(shape)].view(dtype).view(shape)
