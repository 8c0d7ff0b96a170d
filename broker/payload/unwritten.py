"""A buffer that is not written out yet: it knows its bytes, and writes them where it is told.

An array that is not contiguous, or a tensor on a device, must be copied once on its way out; so it
waits until it is known whither, rather than be copied twice.
"""

from typing import Protocol


class Unwritten(Protocol):
    """`nbytes` bytes that lie nowhere in a row; their source must not change until written."""

    nbytes: int

    def write_to(self, memory: memoryview) -> None:
        """Write them into `memory`: writable, contiguous, exactly `nbytes` long, aligned to 64."""

    def tobytes(self) -> bytes:
        """The same, in memory of their own."""
