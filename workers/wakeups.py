"""How soon the kernel lets a thread run that waited: two wishes that need no rights. Linux alone;
elsewhere, and where the kernel does not know of them, nothing changes.

They are about when a thread runs, not about how much: shares of the processor stay as they are.
"""

import ctypes
import os
import platform
import struct

_PR_SET_TIMERSLACK = 29
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(platform.machine())
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""The kernel's `struct sched_attr`: size, policy, flags, nice, priority; runtime, deadline, period
in ns. Of the last three only the first is of use to a thread of the usual policy: its slice."""

SLICE_S = 0.0007
"""Linux gives 1.4 ms on two cores, 2.8 on eight and more. Longer than the loop takes from one call
of `forward` to the next, or it would be interrupted there."""

_libc = ctypes.CDLL(None)


def be_woken_when_due() -> None:
    """Linux ends a sleep or a wait up to 50 µs after its time, so as to wake more threads at once.
    This thread, and those that it starts, are woken when they asked to be.
    """
    _libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def be_run_when_woken() -> None:
    """This thread asks for a short slice: Linux, from 6.12 on, then lets it run as soon as it is
    woken, in place of one that has a longer slice and is in the middle of it.
    """
    if _SCHED_SETATTR is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return  # a policy that its owner chose is left alone
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    slice_ns = int(SLICE_S * 1e9)
    wish = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, slice_ns, 0, 0)
    _libc.syscall(_SCHED_SETATTR, 0, wish, 0)
