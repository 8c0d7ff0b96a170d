"""Watches a model repository from a thread: a look may take long, and the supervisor must not.

Changes are told by the kernel (inotify, through watchfiles), which knows nothing of what other
hosts do to a network file system, and has limits; so there is a look every few seconds anyway.
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Iterator

from watchfiles import watch

from broker.wire import log
from workers.folders import Look, look
from workers.repository import Listing, Repository

LOOK_S = 5.0
"""How often to look where nobody tells of a change."""
TICK_S = 0.5
"""How often while a version is being written: how soon its end is noticed."""
_LOOKING = 0.05
"""Of its time, what the thread spends looking, at most: others want the processor, and the disk."""
_JOINED_S = 0.1
"""Changes that come so close are one."""
_MAX_WATCHED = 1000
"""The repository and its newest versions: some systems allow 8192 watches for all of a user."""


class Watch:
    """A model repository that is being watched. `fd` becomes readable when it has changed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._repository = Repository()
        self._latest: Listing | None = None
        self._news: deque[Listing] = deque(maxlen=1)  # passes from one thread to the other
        self._complaint = ""
        self._stop = threading.Event()
        self.fd, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # A daemon: a file system that hangs must not hold up the supervisor's end.
        self._thread = threading.Thread(target=self._run, name="models", daemon=True)
        self._thread.start()

    def take(self) -> Listing | None:
        """What there is, if that has changed since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 512)
        return self._news.pop() if self._news else None

    def close(self) -> None:
        """Ends the thread, where that is possible."""
        self._stop.set()
        self._thread.join(2 * TICK_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._watch()
            except Exception:  # a thread that is gone would be missed by nobody
                log.bug("models cannot be watched")
                self._stop.wait(LOOK_S)

    def _watch(self) -> None:
        watched = self._paths(self._look())
        while not self._stop.is_set():
            last = looked_s = 0.0  # something may have changed before the watch began
            is_changed = False
            for is_told in self._ticks(watched):
                began = time.monotonic()
                is_changed |= is_told
                every_s = 0.0 if is_changed or self._repository.is_settling else LOOK_S
                if began < last + max(every_s, looked_s / _LOOKING):
                    continue
                is_changed = False
                paths = self._paths(self._look())
                last = time.monotonic()
                looked_s = last - began
                if paths != watched:
                    watched = paths
                    break

    def _look(self) -> Look:
        found = look(self._root)
        listing = self._repository.take_in(found, time.monotonic(), time.time())
        if listing != self._latest:
            self._latest = listing
            self._news.append(listing)
            with contextlib.suppress(BlockingIOError):
                os.write(self._wakeup, b"\0")
        return found

    def _paths(self, found: Look) -> list[str]:
        """What to watch. Below a version's own folder only our looks notice a change."""
        versions = sorted(found.folders, key=lambda folder: int(folder.version))
        newest = [folder.path for folder in versions if not folder.trouble][1 - _MAX_WATCHED :]
        return [self._root, *newest]

    def _ticks(self, paths: list[str]) -> Iterator[bool]:
        """Every `TICK_S`, and at once after a change: whether there was one.

        Ends when the watch has to be made again, or this thread is to end.
        """
        try:
            for changes in watch(
                *paths,
                watch_filter=None,
                debounce=int(_JOINED_S * 1000),
                step=int(_JOINED_S * 500),
                stop_event=self._stop,
                rust_timeout=int(TICK_S * 1000),
                yield_on_timeout=True,
                recursive=False,
            ):
                yield bool(changes)
        except (OSError, RuntimeError) as error:  # no watches left, or a folder has just gone
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.info("changes of models are looked for", every_s=LOOK_S, reason=error)
            until = time.monotonic() + LOOK_S
            while time.monotonic() < until and not self._stop.wait(TICK_S):
                yield False
