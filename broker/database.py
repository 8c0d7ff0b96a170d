"""The SQLite file behind the store: opened, locked, checked, migrated; its errors in words.

Nothing is ever removed: a file that cannot be used is left as it is, for its owner to look at.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

IN_MEMORY = ":memory:"
"""A path that keeps all until the broker ends, and no longer."""

APPLICATION_ID = 0x4D494C4C
"""Stands in the file's head ("MILL"): other databases are left alone."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE traffic (pipeline TEXT PRIMARY KEY, at REAL NOT NULL, traffic TEXT NOT NULL)",
        "CREATE TABLE history (id INTEGER PRIMARY KEY, at REAL NOT NULL, pipeline TEXT NOT NULL,"
        " who TEXT NOT NULL, what TEXT NOT NULL, why TEXT NOT NULL, traffic TEXT NOT NULL)",
        "CREATE INDEX history_of_pipeline ON history (pipeline, id)",
    ),
)
"""From schema version n to n + 1, each. What was released is never changed: append."""

LOCK_S = 0.5
"""How long another's lock is waited for."""

Execute: TypeAlias = Callable[..., sqlite3.Cursor]

_TAKEN = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_DAMAGED = "is damaged, or no file of a broker's traffic"


class StoreError(Exception):
    """The file cannot be used; the message is one line that says what to do."""


class NoPlace(StoreError):
    """There is no file yet, and none can be made there."""


class InUse(StoreError):
    """Another broker has it."""


def open_database(path: str) -> sqlite3.Connection:
    """The file at this path, made where there is none, locked until the connection is closed.

    Raises StoreError. A full disk is no reason not to read: writing will tell.
    """
    if path != IN_MEMORY:
        _make(path)
    try:
        connection = sqlite3.connect(
            path, timeout=LOCK_S, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        is_taken = getattr(error, "sqlite_errorcode", 0) & 0xFF in _TAKEN
        raise unusable(path, reason(error), InUse if is_taken else StoreError) from None
    return connection


def _make(path: str) -> None:
    """An empty file is an empty database. For its owner alone: it names people."""
    exists = os.path.lexists(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error)
        kind = StoreError if exists else NoPlace
        raise unusable(path, f"cannot be {'written' if exists else 'made'}: {text}", kind) from None


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    execute = connection.execute
    execute("PRAGMA locking_mode = EXCLUSIVE")  # what is locked once stays so
    execute("PRAGMA synchronous = EXTRA")  # what was told to be kept outlives a loss of power
    try:
        with transaction(connection, "EXCLUSIVE"):
            if execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise unusable(path, _DAMAGED)
            _migrate(execute, path)
    except sqlite3.Error as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not _version(execute):
            raise


def _migrate(execute: Execute, path: str) -> None:
    version = _version(execute)
    is_empty = execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    if execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,) and not is_empty:
        raise unusable(path, "is a database of another program")
    if version > len(MIGRATIONS):
        raise unusable(
            path,
            f"was written by a newer millstream (schema {version}, this one knows "
            f"{len(MIGRATIONS)})",
        )
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            execute(statement)
    execute(f"PRAGMA application_id = {APPLICATION_ID}")
    # Written even where it is right already, which tells whether the file can be written at all.
    execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _version(execute: Execute) -> int:
    version: int = execute("PRAGMA user_version").fetchone()[0]
    return version


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All or nothing: a process that is killed in the middle, or a full disk, leaves what was."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


# ------------------------------------------------------------------ words


def unusable(path: str, why: str, kind: type[StoreError] = StoreError) -> StoreError:
    """The error of a broker that cannot start."""
    return kind(f"{path} {why} (--state FILE names another, --state none keeps nothing)")


def reason(error: sqlite3.Error) -> str:
    """What SQLite says, as the end of a sentence about the file."""
    code = getattr(error, "sqlite_errorcode", 0)  # none where it was never asked
    words = {
        **dict.fromkeys(_TAKEN, "is in use by another broker"),
        sqlite3.SQLITE_NOTADB: _DAMAGED,
        sqlite3.SQLITE_CORRUPT: _DAMAGED,
        sqlite3.SQLITE_READONLY: "cannot be written",
        sqlite3.SQLITE_PERM: "cannot be written",
        sqlite3.SQLITE_CANTOPEN: "cannot be written, or its folder cannot",
        sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    }
    primary = code & 0xFF  # the rest of an extended code is detail
    return words.get(primary) or f"cannot be used: {error}"
