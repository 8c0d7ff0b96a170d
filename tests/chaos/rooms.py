"""A disk and shared memory that can be filled up: small file systems that nobody else sees.

They are mounted in a mount namespace of this process alone, so that nothing is left of them,
however it ends. Where that is not allowed there are none.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

WAYS = (
    ("unshare", "--mount"),
    ("unshare", "--user", "--map-root-user", "--mount"),
)
"""How one gets a namespace: as root, and as anybody where the system lets them."""
DISK_BYTES = 64 << 20
MEMORY_BYTES = 64 << 20
"""What Docker gives a container."""
TRIES = 100
"""Others take and give back while a room is being filled."""


def enter(folder: Path, argv: Sequence[str]) -> None:
    """Go on as `python ARGV…` in a namespace of its own; returns where there can be none."""
    for way in WAYS:
        probe = [*way, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
        with suppress(OSError):
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                os.execvp(way[0], [*way, sys.executable, *argv])


class Room:
    """One file system."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Mounts it; raises CalledProcessError outside such a namespace."""
        path.mkdir()
        self.path = path
        self._filler = path / "filler"
        options = f"size={size_bytes},mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=True)

    def fill(self) -> None:
        """Leave nothing free."""
        with self._filler.open("ab") as file:
            for _ in range(TRIES):
                free_bytes = self._free_bytes()
                if not free_bytes:
                    return
                with suppress(OSError):  # somebody else took some of it
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free_bytes)

    def empty(self) -> None:
        """All is free again."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)

    def _free_bytes(self) -> int:
        about = os.statvfs(self.path)
        return about.f_bavail * about.f_frsize


class Rooms(Struct, frozen=True):
    """What can be filled up; None where that is not allowed."""

    disk: Room | None = None
    memory: Room | None = None

    def close(self) -> None:
        """Nothing is left of them."""
        for room in (self.disk, self.memory):
            if room is not None:
                room.close()
