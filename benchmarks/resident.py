"""Reads from the system what processes hold in memory, and what they put into shared memory.

Knows nothing of what the processes are for, but how Millstream names its folders in /dev/shm.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types

SHARED_MEMORY = Path("/dev/shm")
FOLDER_PREFIX = "millstream-"
BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True)
class Resident:
    """What is in memory for one process: its own pages, and those of shared memory it touched."""

    own_bytes: int
    shared_bytes: int


def resident(pid: int) -> Resident:
    """As the kernel says now. Raises FileNotFoundError where there is no such process."""
    return parse(Path(f"/proc/{pid}/status").read_text())


def parse(status: str) -> Resident:
    """Read the text of /proc/<pid>/status. Raises KeyError when it is not that."""
    kibibytes = {}
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in ("RssAnon", "RssShmem"):
            kibibytes[name] = int(value.removesuffix("kB"))
    return Resident(kibibytes["RssAnon"] * 1024, kibibytes["RssShmem"] * 1024)


def family(pids: Mapping[str, int]) -> dict[str, int]:
    """These processes and their descendants, which are named after them."""
    found = {}
    for role, pid in pids.items():
        found[role] = pid
        for number, child in enumerate(psutil.Process(pid).children(recursive=True)):
            found[f"{role}, child {number}"] = child.pid
    return found


def shared_folders(pids: Iterable[int]) -> set[Path]:
    """Millstream's folders in shared memory in which these processes hold a file open."""
    folders = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                parent = Path(os.readlink(descriptor)).parent
                if parent.parent == SHARED_MEMORY and parent.name.startswith(FOLDER_PREFIX):
                    folders.add(parent)
    return folders


def allocated_bytes(folder: Path) -> int:
    """The memory that the files of this folder take; holes in them take none."""
    total = 0
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_blocks * BLOCK_BYTES
    return total
