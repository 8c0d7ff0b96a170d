"""Which batch a worker process began last, in memory that outlives it.

Results may be lost with a process that dies just after it handed them over, so that the broker
would take the batch before for the one that it died of. Its supervisor reads here which it was.
"""

import ctypes
import mmap
import os
import struct

_PAIR = struct.Struct("=QQ")


def create() -> int:
    """A descriptor of such memory, to be inherited. Raises OSError."""
    fd = os.memfd_create("millstream-mark", os.MFD_CLOEXEC)
    try:
        os.truncate(fd, _PAIR.size)
    except OSError:
        os.close(fd)
        raise
    return fd


def read(fd: int) -> tuple[int, int]:
    """The epoch and the lease that were written last; zeros where none was."""
    epoch, lease = _PAIR.unpack(os.pread(fd, _PAIR.size, 0))
    return epoch, lease


class Mark:
    """The worker's end."""

    def __init__(self, fd: int) -> None:
        """Takes the descriptor over."""
        self._memory = mmap.mmap(fd, _PAIR.size)
        os.close(fd)
        self._pair = (ctypes.c_uint64 * 2).from_buffer(self._memory)

    def begin(self, epoch: int, lease: int) -> None:
        """This batch is about to be run."""
        pair = self._pair
        pair[0] = epoch  # what is no such number is cut to one
        pair[1] = lease
