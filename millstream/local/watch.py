"""Tells when a source file is written, from a thread: the kernel does (inotify, by watchfiles)."""

import contextlib
import os
import threading
from collections.abc import Iterable

from watchfiles import watch

_JOINED_MS = 50
"""Changes that come so close are one: an editor writes another file, and renames it."""
_CLOSED_S = 1.0


class SourceWatch:
    """`fd` becomes readable when a .py file in one of the folders was written."""

    def __init__(self, files: Iterable[str]) -> None:
        self.folders = folders_of(files)
        self.fd, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sources", daemon=True)
        self._thread.start()

    def take(self) -> bool:
        """Whether one was since this was asked before."""
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self.fd, 512))
        return False

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join(_CLOSED_S)
        if not self._thread.is_alive():
            os.close(self.fd)
            os.close(self._wakeup)

    def _run(self) -> None:
        for _ in watch(
            *sorted(self.folders),
            watch_filter=lambda _change, path: path.endswith(".py"),
            debounce=2 * _JOINED_MS,
            step=_JOINED_MS,
            rust_timeout=200,
            stop_event=self._stop,
            recursive=False,
        ):
            with contextlib.suppress(BlockingIOError):
                os.write(self._wakeup, b"\0")


def folders_of(files: Iterable[str]) -> frozenset[str]:
    """Those that are there, of the folders of these files."""
    return frozenset(folder for file in files if os.path.isdir(folder := os.path.dirname(file)))
