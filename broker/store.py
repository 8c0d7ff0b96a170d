"""The traffic of each pipeline, and what has changed it, kept in a file of the broker's.

A thread of its own reads and writes, since a disk may take any time, and the broker never waits for
one. What it has done is fetched with `done` when the descriptor `fd` becomes readable.
"""

import os
import sqlite3
import threading
import time
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from broker.core.events import Change
from broker.core.traffic import Traffic
from broker.database import IN_MEMORY, open_database, reason, transaction, unusable
from broker.wire import log

MOST_CHANGES = 10_000
"""Kept in the history of each pipeline."""
MOST_UNWRITTEN = 1000
"""Changes that are remembered for a disk that takes nothing; the state itself always is."""

CLOSE_S = 2.0
"""How long a slow disk may hold up the end of the broker."""


class Entry(Struct, frozen=True):
    """One change, as the history tells it."""

    at: float
    """Seconds since 1970."""
    by: str
    what: str
    why: str
    traffic: dict[str, object]
    """As it was from then on."""


class Saved(Struct, frozen=True):
    """A change was written; `trouble` says why not, where that is so."""

    token: object
    trouble: str = ""


class Told(Struct, frozen=True):
    """The history that was asked for, newest first."""

    token: object
    entries: list[Entry]
    trouble: str = ""


Done: TypeAlias = Saved | Told


class _Save(Struct, frozen=True):
    pipeline: str
    traffic: bytes
    change: Change
    token: object
    at: float


class _Tell(Struct, frozen=True):
    pipeline: str
    limit: int
    token: object


class Store:
    """The file is locked while this is open, so that no two brokers share it."""

    def __init__(self, path: str, *, lack: str = "") -> None:
        """Open the file, or make it. `lack` says why there is none but memory, where there was to
        be one. Raises StoreError.
        """
        self.path = path
        self.trouble = self._lack = lack
        """Why the latest changes are not in the file; "" while they are."""
        self._connection = open_database(path)
        self._inode = _inode(path)
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._jobs: SimpleQueue[_Save | _Tell | None] = SimpleQueue()
        self.finished: deque[Done] = deque()
        """What `done` will return; to be looked at, no more."""
        self._is_open = True
        self._states: dict[str, _Save] = {}  # these and the next are not in the file yet
        self._changes: deque[_Save] = deque(maxlen=MOST_UNWRITTEN)
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    # -------------------------------------------------------------- for the broker's loop

    def load(self, now: float) -> dict[str, Traffic]:
        """The traffic of each pipeline at `now`, in seconds since 1970: a promotion has gone on
        meanwhile. Before anything is saved. Raises StoreError.
        """
        try:
            rows = self._connection.execute("SELECT pipeline, at, traffic FROM traffic").fetchall()
            return {
                pipeline: _later(msgspec.json.decode(text, type=Traffic), now - at)
                for pipeline, at, text in rows
            }
        except sqlite3.Error as error:
            raise unusable(self.path, reason(error)) from None
        except msgspec.MsgspecError as error:
            raise unusable(self.path, f"cannot be understood: {error}") from None

    def save(self, pipeline: str, traffic: Traffic, change: Change, token: object) -> None:
        """Write this down; a `Saved` with the token follows."""
        text = msgspec.json.encode(traffic)
        self._jobs.put(_Save(pipeline, text, change, token, time.time()))

    def tell(self, pipeline: str, limit: int, token: object) -> None:
        """Read the latest changes; a `Told` with the token follows."""
        self._jobs.put(_Tell(pipeline, limit, token))

    @property
    def file(self) -> str:
        """Where it is kept; "" for memory."""
        return "" if self.path == IN_MEMORY else self.path

    def done(self) -> list[Done]:
        """What has been done since this was last asked."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fd)
        ready = []
        while self.finished:
            each = self.finished.popleft()
            if type(each) is Saved:
                self.trouble = each.trouble
            ready.append(each)
        return ready

    def close(self) -> list[Done]:
        """Finish what is asked for, as far as the disk goes along; returns what `done` would.

        A second time it does nothing.
        """
        if not self._is_open:
            return []
        self._is_open = False
        self._jobs.put(None)
        self._thread.join(CLOSE_S)
        ready = self.done()
        if not self._thread.is_alive():  # else they end with the process
            self._connection.close()
            os.close(self.fd)
        return ready

    # -------------------------------------------------------------- the thread

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self.finished.append(self._read(job) if isinstance(job, _Tell) else self._keep(job))
            os.eventfd_write(self.fd, 1)
        if self._states:  # the disk may have room again
            with suppress(sqlite3.Error):
                self._write()

    def _keep(self, job: _Save) -> Saved:
        """What could not be written before goes along."""
        self._states[job.pipeline] = job
        self._changes.append(job)
        try:
            self._write()
            if self._inode != _inode(self.path):  # SQLite writes on, where nobody will look
                return Saved(job.token, f"{self.path} was moved or removed while it was in use")
        except sqlite3.Error as error:
            return Saved(job.token, f"{self.path} {reason(error)}")
        except Exception as error:  # a bug: loud, but whoever waits is answered
            log.bug("not_kept", pipeline=job.pipeline)
            return Saved(job.token, f"{self.path}: {error}")
        return Saved(job.token, self._lack)

    def _write(self) -> None:
        execute = self._connection.execute
        with transaction(self._connection):
            for state in self._states.values():
                execute(
                    "INSERT OR REPLACE INTO traffic (pipeline, at, traffic) VALUES (?, ?, ?)",
                    (state.pipeline, state.at, state.traffic.decode()),
                )
            for each in self._changes:
                by, what, why = each.change.by, each.change.what, each.change.why
                execute(
                    "INSERT INTO history (at, pipeline, who, what, why, traffic)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (each.at, each.pipeline, by, what, why, each.traffic.decode()),
                )
            for pipeline in self._states:
                execute(
                    "DELETE FROM history WHERE pipeline = ?1 AND id <= (SELECT id FROM history"
                    " WHERE pipeline = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                    (pipeline, MOST_CHANGES),
                )
        self._states.clear()
        self._changes.clear()

    def _read(self, job: _Tell) -> Told:
        """What is not in the file yet comes first."""
        rows: list[tuple[float, str, str, str, bytes]] = [
            (each.at, each.change.by, each.change.what, each.change.why, each.traffic)
            for each in reversed(self._changes)
            if each.pipeline == job.pipeline
        ]
        try:
            rows += self._connection.execute(
                "SELECT at, who, what, why, traffic FROM history"
                " WHERE pipeline = ? ORDER BY id DESC LIMIT ?",
                (job.pipeline, job.limit),
            )
            entries = [
                Entry(*row[:4], msgspec.json.decode(row[4], type=dict[str, object]))
                for row in rows[: job.limit]
            ]
        except sqlite3.Error as error:
            return Told(job.token, [], f"{self.path} {reason(error)}")
        except msgspec.MsgspecError as error:
            return Told(job.token, [], f"{self.path} cannot be understood: {error}")
        return Told(job.token, entries)


def default_path(pipeline_file: str) -> str:
    """Where a broker keeps it that is told nothing: beside its first pipeline file."""
    return f"{os.path.splitext(pipeline_file)[0]}.traffic.db"


def _inode(path: str) -> int:
    """Which file is at this path; 0 for none."""
    with suppress(OSError):
        return os.stat(path).st_ino
    return 0


def _later(traffic: Traffic, passed_s: float) -> Traffic:
    """The same after this time, for a step of a promotion lasts while there is no broker, too."""
    promotion = traffic.promotion
    if promotion is None:
        return traffic
    # A clock that was set back is none that says how much has passed.
    elapsed_s = promotion.elapsed_s + max(passed_s, 0.0)
    return replace(traffic, promotion=replace(promotion, elapsed_s=elapsed_s))
