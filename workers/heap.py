"""Freed memory goes back to the system now and then, and not whenever it is freed.

Workers are started so that malloc keeps what a batch has freed for the next one. What a rare large
batch needed would stay for ever, so it is given back: soon after the last batch, and while there is
no end of batches every half minute; and at once where memory has run out.
"""

import contextlib
import ctypes
import gc
import os
import sys
from typing import Any

MALLOC_TUNABLES = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=268435456"
"""glibc gives the memory of large arrays back to the system whenever they are freed, and takes it
anew, zeroed page by page, for the next batch. A worker's batches all look alike, so it may keep
256 MiB. (Three functions over batches of 32 arrays of 602 KB, items a second: 3,040 as glibc does
by itself, 7,270 so. Huge pages made it 8,400, but nothing once arrays are made in the arena, and
what is resident then comes and goes in steps of 2 MiB.)"""

IDLE_S = 1.0
EVERY_S = 30.0
"""Giving back some 30 MiB and taking them again costs a few milliseconds."""


class Heap:
    """This process's malloc; where it was not started with `MALLOC_TUNABLES` it is left alone."""

    def __init__(self) -> None:
        is_ours = os.environ.get("GLIBC_TUNABLES") == MALLOC_TUNABLES
        self._trim = _malloc_trim() if is_ours else None
        self._trimmed_at = 0.0

    def tick(self, now: float, ran_at: float) -> None:
        """To be called about once a second; `ran_at` is when a batch was run last."""
        is_new = ran_at > self._trimmed_at  # there may be something to give back
        if is_new and (now - ran_at > IDLE_S or now - self._trimmed_at > EVERY_S):
            self.give_back(now)

    def give_back(self, now: float) -> None:
        """Gives back what is freed."""
        self._trimmed_at = now
        if self._trim is not None:
            self._trim(0)


def relieve() -> None:
    """Memory has run out: frees what only cycles still hold, and gives back what is freed, on the
    host and, where torch uses one, on the device.
    """
    gc.collect()
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None:
        with contextlib.suppress(Exception):  # a broken device: its next use will tell
            if cuda.is_initialized():
                cuda.empty_cache()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
