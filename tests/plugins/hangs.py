"""Hangs where HANGS_IN says (setup, forward or teardown), each process in a way of its own."""

import ctypes
import os
import signal
import time
from typing import Any

from millstream import Worker


def sleep() -> None:
    time.sleep(600)


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(600)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hold_the_gil() -> None:
    libc = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def be_uninterruptible() -> None:
    """In state D: the kernel waits for a child to call exec, which first waits for a writer."""
    fifo = f"fifo{os.getpid()}"  # in the test's own folder
    os.mkfifo(fifo)
    opens = [(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)]
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=opens)


WAYS = (sleep, ignore_sigterm, block_signals, stop, hold_the_gil, be_uninterruptible)


class Hangs(Worker):
    def setup(self) -> None:
        self._hang("setup")

    def forward(self, batch: list[Any]) -> list[Any]:
        self._hang("forward")
        return batch

    def teardown(self) -> None:
        self._hang("teardown")

    def _hang(self, where: str) -> None:
        if os.environ["HANGS_IN"] == where:
            WAYS[self.index]()
