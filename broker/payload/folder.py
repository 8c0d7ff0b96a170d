"""The folder in which the arenas of one deployment lie, and who may use it.

The broker makes it, in the host's shared memory, and puts a random token there; who reads the same
token as the broker shares a host with it. Each arena is a file that its owner keeps locked for
life: a lock that can be had means a dead owner. What is in the files is no concern of this module.
"""

import fcntl
import hashlib
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"millstream-[0-9]{1,10}-[0-9a-f]{12}")
_ARENA = re.compile(r"([0-9a-f]{16})\.arena")
_UNBORN = re.compile(r"[0-9a-f]{16}\.new")
_TOKEN = re.compile(r"[0-9a-f]{32}")
_TRIES = 100
"""So often may a peer end just then when another has looked at its arena."""
_LARGEST_BYTES = 1 << 30
_LOCK_TRIES = 20
_LOCK_AGAIN_S = 0.01  # a peer that leaves holds the token's lock for less than this


class ArenaError(Exception):
    """There can be no arenas here; the message is one line for the log."""


def folder_name(address: str) -> str:
    """What this user's folder for the broker at `address` is called."""
    return f"millstream-{os.getuid()}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def shm_root() -> Path:
    """Where the host keeps shared memory; MILLSTREAM_SHM names another place."""
    return Path(os.environ.get("MILLSTREAM_SHM") or "/dev/shm")


def default_limit_bytes() -> int:
    """How large one arena may become: an eighth of the host's shared memory, at most 1 GiB.

    0 where there is no shared memory.
    """
    try:
        about = os.statvfs(shm_root())
    except OSError:
        return 0
    return min(about.f_blocks * about.f_frsize // 8, _LARGEST_BYTES)


class ArenaFolder:
    """One deployment's folder; made by its broker, joined by its peers."""

    def __init__(self, name: str, token: str) -> None:
        self.name = name
        self.token = token
        self.path = shm_root() / name
        self._lock = -1  # the token's, while this is the broker's

    @classmethod
    def make(cls, name: str) -> "ArenaFolder":
        """For the broker: the folder of this name, which may be there already.

        A token that is there is kept, so that peers of an earlier broker need not move. Raises
        ArenaError where the folder cannot be made, or is not ours alone.
        """
        if not _NAME.fullmatch(name):
            raise ArenaError(f"{name!r} is no name of a folder for arenas")
        path = shm_root() / name
        folder = cls(name, "")
        try:
            for _ in range(_LOCK_TRIES):
                if folder._take_over():
                    return folder
                time.sleep(_LOCK_AGAIN_S)
        except OSError as error:
            with suppress(OSError):  # others have something there
                os.rmdir(path)
            raise ArenaError(f"no arenas in {path}: {error.strerror}") from None
        raise ArenaError(f"{path} is the folder of another broker, which is running")

    def _take_over(self) -> bool:
        """Have the folder and its token's lock; False where a peer is just leaving with both."""
        path = self.path
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        with suppress(FileNotFoundError):
            if not _is_private(path):
                raise ArenaError(f"{path} is not a folder of this user with mode 0700")
            self.token = _read_token(path) or _write_token(path)
            lock = _take_lock(path / "token")
            if lock is not None:
                self._lock = lock
                return True
        return False

    @classmethod
    def join(cls, name: str, token: str) -> "ArenaFolder | None":
        """For a peer whose broker named this folder and token; None: on another host, or not ours.

        Both come from the network and are not trusted.
        """
        if not (_NAME.fullmatch(name) and _TOKEN.fullmatch(token)):
            return None
        path = shm_root() / name
        try:
            if not _is_private(path) or _read_token(path) != token:
                return None
        except OSError:
            return None
        return cls(name, token)

    def arena_path(self, id: int) -> Path:
        """The file of an arena, whether or not there is one."""
        return self.path / f"{id:016x}.arena"

    def unborn_path(self, id: int) -> Path:
        """The name that an arena's file has until its owner has locked it."""
        return self.path / f"{id:016x}.new"

    def arenas(self) -> list[int]:
        """The ids of the arenas in the folder, their owners dead or alive."""
        return [int(found[1], 16) for found in map(_ARENA.fullmatch, self._names()) if found]

    def is_dead(self, id: int) -> bool:
        """Whether this arena has no file or no living owner."""
        path = self.arena_path(id)
        lock = _take_lock(path)
        if lock is None:
            return not path.exists()
        os.close(lock)
        return True

    def remove(self, id: int) -> None:
        """Remove the file of a dead owner; one whose owner lives stays."""
        _remove_dead(self.arena_path(id))

    def remove_unborn(self) -> None:
        """Remove what owners that died while they made their arena have left."""
        for name in self._names():
            if _UNBORN.fullmatch(name):
                _remove_dead(self.path / name)

    def leave(self) -> None:
        """The broker ends, or, when there is none, a peer: remove what nobody living uses, the
        folder included. A broker says `close` after it.
        """
        for _ in range(_TRIES):
            if not self._clear():
                return

    def _clear(self) -> bool:
        """Remove what is not used; True if that is to be done again, since another peer, which
        ended meanwhile, may have left that to us: it takes whoever has the lock for a broker.
        """
        lock = self._lock if self._lock >= 0 else _take_lock(self.path / "token")
        if lock is None:
            return False  # the broker, or another peer, sees to it
        self.remove_unborn()
        for id in self.arenas():
            self.remove(id)
        used = self._is_used()
        if not used:
            for name in ("token.new", "token"):
                with suppress(OSError):
                    os.unlink(self.path / name)
            with suppress(OSError):
                os.rmdir(self.path)
        if lock != self._lock:
            os.close(lock)
        return used and (not self._is_used() or any(self.is_dead(id) for id in self.arenas()))

    def _is_used(self) -> bool:
        return any(_ARENA.fullmatch(name) or _UNBORN.fullmatch(name) for name in self._names())

    def close(self) -> None:
        """For the broker: another one may have the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def has_broker(self) -> bool:
        """Whether a broker lives that sees to the folder."""
        if self._lock >= 0:
            return True
        path = self.path / "token"
        lock = _take_lock(path)
        if lock is None:
            return path.exists()
        os.close(lock)
        return False

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except OSError:
            return []


def _is_private(path: Path) -> bool:
    about = os.lstat(path)
    mine = about.st_uid == os.getuid()
    return mine and stat.S_ISDIR(about.st_mode) and about.st_mode & 0o777 == 0o700


def _read_token(path: Path) -> str:
    """The token in the folder, "" where there is none that is whole."""
    try:
        file = os.open(path / "token", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    try:
        text = os.read(file, 64).decode("ascii", "replace")
    finally:
        os.close(file)
    return text if _TOKEN.fullmatch(text) else ""


def _write_token(path: Path) -> str:
    token = os.urandom(16).hex()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(path / "token.new", flags, 0o600)
    try:
        os.write(file, token.encode())
    except OSError:  # shared memory is full
        os.unlink(path / "token.new")
        raise
    finally:
        os.close(file)
    os.replace(path / "token.new", path / "token")  # a reader sees all of it or nothing
    return token


def _take_lock(path: Path) -> int | None:
    """The file at `path`, open and locked; None if it is not there or its owner lives."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino == os.fstat(file).st_ino:  # not removed while it was opened
            return file
    except OSError:
        pass
    os.close(file)
    return None


def _remove_dead(path: Path) -> None:
    lock = _take_lock(path)
    if lock is None:
        return
    # Removed under the lock: an owner that is just about to lock its new file then sees it gone,
    # and begins anew.
    with suppress(OSError):
        os.unlink(path)
    os.close(lock)
