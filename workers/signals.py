"""Signals as something to wait for: counted by Python's handler, seen through a descriptor."""

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType


class SignalCounter:
    """Counts given signals. `fd` becomes readable when one comes, even while `poll` sleeps."""

    def __init__(self, *signums: int, on_signal: Callable[[int], None] | None = None) -> None:
        """`on_signal` is called in the handler with the number of signals so far, so that a main
        thread that is busy, or waits elsewhere, need not come back first. Main thread only."""
        self.count = 0
        self.last = 0
        self._on_signal = on_signal
        self.fd, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        for signum in signums:
            signal.signal(signum, self._handle)
        # A script, or who started us, may have blocked them: then none would ever come.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signums)

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        self.count += 1
        self.last = signum
        if self._on_signal is not None:
            self._on_signal(self.count)

    def clear(self) -> None:
        """Empties `fd`; the count stays."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 512)

    def close(self) -> None:
        """Gives the descriptors back; the handlers are the caller's to change."""
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._wakeup)
