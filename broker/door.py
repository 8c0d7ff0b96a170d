"""Keeps further peers out while the broker is short of files.

A broker needs some for itself, and libzmq, where keys are used, ends a process that has none for a
connection to an ipc address. So the socket's file is moved out of sight in time: those who are
connected notice nothing, and the others try again by themselves. (On tcp libzmq only goes round in
circles, and is told of here.)
"""

import os
from collections import Counter
from contextlib import suppress

from broker.wire import log

NEEDED_FILES = 256
"""Below this limit a broker does not start: it takes some twenty files by itself."""
SPARE_FILES = 256
"""So many are kept free, or half of all: peers may come in numbers before they are counted."""
LOOK_S = 0.005
"""How often it is looked at; less often by as much as more files than those are left."""
MANY_FILES = 1 << 16
"""A limit beyond this will not be reached, and so many would be slow to count."""


class Door:
    """Open at first. `tend` it at each turn of the loop, and `close` it in the end."""

    def __init__(self, path: str, limit: int, counters: Counter[str]) -> None:
        """`path` is the socket's, "" on tcp. `counters` get `short_of_files`."""
        self._path = path
        self._hidden = f"{path}.shut"
        self._limit = limit
        self._spare = min(SPARE_FILES, limit // 2)
        self._counters = counters
        self._is_open = True
        self._due = 0.0 if limit < MANY_FILES else float("inf")

    def tend(self, now: float) -> None:
        """See to it that there are files left, if it is time to look."""
        if now < self._due:
            return
        left = self._limit - len(os.listdir("/proc/self/fd"))
        # To count takes 30 µs; where many are left, as many more may come before it matters.
        self._due = now + LOOK_S * max(1, (left - self._spare) // self._spare)
        if self._is_open and left < self._spare:
            self._is_open = False
            self._counters["short_of_files"] += 1
            log.warning("short_of_files", limit=self._limit, left=left)
            self._move(self._path, self._hidden)
        elif not self._is_open and left >= self._spare + self._spare // 4:
            self._is_open = True
            log.info("files_again", limit=self._limit, left=left)
            self._move(self._hidden, self._path)

    def _move(self, source: str, target: str) -> None:
        if self._path:
            with suppress(OSError):  # somebody has tidied up there: then nobody comes in anyway
                os.rename(source, target)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._path and not self._is_open:
            with suppress(OSError):
                os.unlink(self._hidden)
