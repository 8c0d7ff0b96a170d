"""Wakes an event loop at a moment: uvloop's own timers know whole milliseconds, and no less.

Linux alone. Python has no timerfd before 3.13, so it is called through ctypes.
"""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable

_libc = ctypes.CDLL(None, use_errno=True)
_ABSOLUTE = 1
# What the kernel takes for "never" is a moment of zero; the least after it is past as well.
_LEAST_NS = 1


class _Setting(ctypes.Structure):
    """The kernel's `struct itimerspec`."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


class Alarm:
    """Calls `ring` on the loop at each moment that is set, one at a time, until closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._setting = _Setting()
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = _checked(_libc.timerfd_create(time.CLOCK_MONOTONIC, flags))
        loop.add_reader(self._descriptor, self._woken)

    def set(self, moment_s: float) -> None:
        """Ring at this moment of `time.monotonic`, or at once where it is past."""
        ns = max(int(moment_s * 1e9), _LEAST_NS)
        self._setting.at_s, self._setting.at_ns = divmod(ns, 1_000_000_000)
        setting = ctypes.byref(self._setting)
        _checked(_libc.timerfd_settime(self._descriptor, _ABSOLUTE, setting, None))

    def close(self) -> None:
        """Never ring again."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _woken(self) -> None:
        os.read(self._descriptor, 8)
        self._ring()


def _checked(returned: int) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return returned
