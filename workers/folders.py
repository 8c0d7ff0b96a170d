"""Looks at a model repository on disk: which folders of versions there are, and how each is now.

Only looks, within bounds, and judges nothing. It may take as long as a network file system likes,
so it is called by a thread of its own, `watching.py`'s.

Links are followed: a version, or the whole repository, may be one, as in the volumes of Kubernetes,
whose folder `..data` is a link that is exchanged at once.
"""

import os
from hashlib import blake2b
from stat import S_ISDIR

from msgspec import Struct
from msgspec.structs import replace

from workers.policy import version_of

MARKER = "READY"
"""A file of this name in a version's folder says that the version is complete."""

MAX_NAMES = 10_000
"""So many names in the repository itself are looked at."""
MAX_ENTRIES = 10_000
"""So many files and folders of one version: some milliseconds on a disk, seconds on a network."""


class Folder(Struct, frozen=True):
    """One version's folder at one moment."""

    version: str
    path: str
    mark: bytes = b""
    """Stays the same while the names, sizes and times of change of its files do."""
    touched: float = 0.0
    """When anything in it was last written, renamed or linked, by the clock of its file system."""
    entries: int = 0
    """How many files and folders are in it, the marker not counted."""
    has_marker: bool = False
    trouble: str = ""
    """Why it cannot be used as it is."""


class Look(Struct, frozen=True):
    """What there is in a repository at one moment."""

    folders: tuple[Folder, ...] = ()
    odd: tuple[tuple[str, str], ...] = ()
    """Names in it that are no versions, and why."""
    trouble: str = ""
    """Why the repository itself cannot be read."""


def look(root: str) -> Look:
    """How the repository is now."""
    names: list[str] = []
    odd: list[tuple[str, str]] = []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if len(names) == MAX_NAMES:
                    odd.append((entry.name, f"there are more than {MAX_NAMES} names"))
                    break
                names.append(entry.name)
    except OSError as error:
        return Look(trouble=_words(error))
    folders: dict[str, Folder] = {}
    for name in sorted(names, key=lambda name: (len(name), name)):
        path = os.path.join(root, name)
        version = version_of(name)
        if not version:
            if not name.startswith(".") and os.path.isdir(path):
                odd.append((name, "its name is no number"))
        elif version in folders:
            odd.append((name, f"it is version {version} again"))
        elif os.path.exists(path) and not os.path.isdir(path):
            odd.append((name, "it is no folder"))
        else:
            folders[version] = look_at(version, path)
    return Look(tuple(folders.values()), tuple(odd))


def look_at(version: str, path: str) -> Folder:
    """How one version's folder is now."""
    try:
        has_marker = os.path.isfile(os.path.join(path, MARKER))
        return _walk(Folder(version, path, has_marker=has_marker))
    except OSError as error:
        why = _words(error)
        if os.path.islink(path) and not os.path.exists(path):
            why = f"it is a link to {os.readlink(path)}, which is not there"
        return Folder(version, path, _digest([why]), trouble=why)


def _walk(bare: Folder) -> Folder:
    """With all that is in it. Raises OSError for what cannot be read."""
    lines: list[str] = []
    top = os.stat(bare.path)
    touched = top.st_ctime
    waiting, seen = [bare.path], {_key(top)}
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if len(lines) == MAX_ENTRIES:
                    return _too_many(bare)
                # Workers make the one, of what they import; the other may come any time.
                if entry.name == "__pycache__" or entry.path == os.path.join(bare.path, MARKER):
                    continue
                stat = _stat(entry)
                lines.append(_line(os.path.relpath(entry.path, bare.path), stat))
                touched = max(touched, stat.st_ctime)
                if S_ISDIR(stat.st_mode) and _key(stat) not in seen:  # links may form a ring
                    seen.add(_key(stat))
                    waiting.append(entry.path)
    return replace(bare, mark=_digest(sorted(lines)), touched=touched, entries=len(lines))


def _too_many(bare: Folder) -> Folder:
    if bare.has_marker:  # then it need not be known what is in it
        stat = os.stat(os.path.join(bare.path, MARKER))
        return replace(bare, mark=_digest([_line(MARKER, stat)]), entries=MAX_ENTRIES)
    why = f"it has more than {MAX_ENTRIES} files, and no file {MARKER}"
    return replace(bare, mark=_digest([why]), trouble=why)


def _stat(entry: "os.DirEntry[str]") -> os.stat_result:
    """Of what a link leads to, or of the link where it leads nowhere. Raises OSError."""
    try:
        return os.stat(entry.path)
    except OSError:
        return os.lstat(entry.path)


def _key(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _line(name: str, stat: os.stat_result) -> str:
    # Neither a folder's own size and time, which change when something is made beside its files,
    # nor numbers of inodes, which some network file systems make up anew each time.
    return name if S_ISDIR(stat.st_mode) else f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}"


def _digest(lines: list[str]) -> bytes:
    return blake2b("\n".join(lines).encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _words(error: OSError) -> str:
    return f"it cannot be read: {error.strerror or error}"
