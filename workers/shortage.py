"""Want of memory: which exceptions mean it, and what a batch that met it has to tell. Pure.

Exceptions are known by their types and words, so that no library has to be imported.

Sources: numpy raises a MemoryError of its own (`numpy/_core/_exceptions.py`); torch has
OutOfMemoryError for its caching allocators, AcceleratorError "CUDA error: out of memory" for what
they do not serve, and a plain RuntimeError for the CPU (`c10/core/impl/alloc_cpu.cpp`). The
libraries under it have codes, which torch puts into a RuntimeError: CUBLAS_STATUS_ALLOC_FAILED,
CUDNN_STATUS_ALLOC_FAILED, since cuDNN 9 CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
CUFFT_ALLOC_FAILED and the like. jaxlib's RuntimeError says "RESOURCE_EXHAUSTED: Out of memory".
"""

import errno
import re

from msgspec import Struct

_WORDS = re.compile(
    "out of memory|DefaultCPUAllocator: .*memory|ALLOC_FAILED|ALLOCATION_FAILED", re.IGNORECASE
)


class Shortage(Struct, gc=False):
    """What one batch has to tell about memory."""

    fewest: int = 0
    """The fewest items for which `forward` ran out of memory; 0: it did not."""
    alone: int = 0
    """Items that ran out of memory alone since a call of `forward` last returned."""
    worked: bool = False
    """Whether any call of `forward` returned."""
    is_broken: bool = False
    """Whether the example, too, failed after an item had run out of memory alone."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this, its cause, or one of its group is want of memory, on the host or a device."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:  # a chain may be a ring
        seen.add(id(at))
        if _is_one(at):
            return True
        at = at.__cause__
    return False


def _is_one(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_out_of_memory, error.exceptions))
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and _WORDS.search(str(error)) is not None
