"""Reads the next batch while `forward` runs, so that it is at hand when the call returns.

A batch that was sent ahead would else lie in the socket until then, and to take it from there and
decode its items costs as much as all that is done with the results. Meanwhile the plug-in, and a
device, would wait. A thread of its own does it, as long as batches follow on one another and are
long enough. It takes turns with the loop, so nothing that both use is locked: the link is its own
from `begin` to `end`. It decides nothing, and calls no hook of the plug-in.

Where the next batch is at hand, it also sends the results of the last one: those would else leave
before the next call. They leave as soon, as long as `forward` lets the thread run at once.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Self

from broker.wire import log
from broker.wire.messages import Batch
from workers import wakeups
from workers.link import Link
from workers.session import Held
from workers.work import Hooks, Work

LONG_S = 0.001
"""A shorter call is over before the thread has got anywhere."""

IN_A_ROW = 4
"""After so many batches, with no wait between them, more may be expected."""

TRY_AGAIN_BATCHES = 256
"""Where the thread came too late, since `forward` does not let go of Python's lock or took less
time than the one before, the loop had to wait for it: about 0.1 ms. So it pauses for so many."""


PROMPT_S = 0.001
"""Results are left to the thread as long as it began its last turn within this time."""


class ReadAhead:
    """The thread, and what it has read."""

    def __init__(self, hooks: Hooks, link: Link, send: Callable[[], None]) -> None:
        """`send` is called at the beginning of each turn of the thread."""
        self._send = send
        self._hooks = hooks
        self._link = link
        self._thread: threading.Thread | None = None
        self._go = threading.Lock()
        self._go.acquire()
        self._busy = threading.Lock()  # held while it is the thread's turn
        self._is_out = False
        self._is_closing = False
        self._began = 0.0
        self._patience_s = 0.0
        self._is_prompt = False
        self._has_read = False  # a batch, in its last turn
        self._row = 0
        self._paused = 0
        self._error: BaseException | None = None
        self._found: Batch | None = None
        self._work: Work | None = None
        self._recall = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        link.watch(self._recall)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.forget(self._recall)
        if self._thread is not None:
            self._is_closing = True
            self._go.release()
            self._thread.join()
        os.close(self._recall)

    def work(self, held: Held) -> Work:
        """A batch that `take` gave, its items decoded already where that could be done."""
        work, found = self._work, self._found
        self._work = self._found = None
        if work is not None and found is held.batch:
            return work
        return Work(self._hooks, held.batch, held.received)

    def sends_after(self, batch_s: float) -> bool:
        """Whether the results of a batch that took so long may be left to it: the next one is at
        hand, and `forward` will hardly keep the thread from running.
        """
        return self._is_prompt and self._has_read and not self._paused and batch_s >= LONG_S

    def begin(self, before_s: float) -> bool:
        """`forward` is about to be called; returns whether the thread sends and reads meanwhile.

        `before_s` is how long the batch took that ended just now, 0 where there was none: the next
        one is waited for no longer than half of that.
        """
        self._row = self._row + 1 if before_s >= LONG_S else 0
        if self._row < IN_A_ROW or self._link.is_stuck:
            return False
        if self._paused:
            self._paused -= 1
            return False
        if self._thread is None and not self._started():
            return False
        self._busy.acquire()
        self._is_out = True
        self._has_read = False
        self._began = time.monotonic()
        self._patience_s = before_s / 2
        self._go.release()
        return True

    def _started(self) -> bool:
        thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # there may be no more of them in this container
            log.warning("batches are not read ahead", reason=str(error))
            self._paused = sys.maxsize
            return False
        self._thread = thread
        wakeups.be_run_when_woken()  # from a call to the next, others can wait
        return True

    def end(self) -> None:
        """The link is the loop's again. Without `begin` it does nothing."""
        if not self._is_out:
            return
        self._is_out = False
        if not self._busy.acquire(blocking=False):
            self._paused = TRY_AGAIN_BATCHES
            self._is_prompt = False
            os.eventfd_write(self._recall, 1)
            self._busy.acquire()
            os.eventfd_read(self._recall)
        self._busy.release()
        if self._error is not None:
            raise self._error

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the loop's
        while True:
            self._go.acquire()
            if self._is_closing:
                return
            try:
                self._read()
            except BaseException as error:  # ours, and the loop is to end of it
                self._error = error
            self._busy.release()

    def _read(self) -> None:
        self._is_prompt = time.monotonic() - self._began <= PROMPT_S
        self._send()
        until = self._began + self._patience_s
        while (batch := self._link.read_ahead()) is None:
            left_s = until - time.monotonic()
            if left_s <= 0.0 or self._link.wait(left_s):
                return
        self._has_read = True
        if self._hooks.decodes_anywhere and _is_plain(batch):
            work = Work(self._hooks, batch, time.monotonic())
            work.read_ahead()
            self._found, self._work = batch, work


def _is_plain(batch: Batch) -> bool:
    """Whether its payloads stand in the message itself, so that none lies in shared memory."""
    return all(type(item.payload) is bytes for item in batch.items)
