"""Where this process's cgroups are, version 1 or 2, inside a container or not."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path("/sys/fs/cgroup")


class Group(Struct, frozen=True):
    """One cgroup for one controller: its folder, and whether that is of version 2."""

    folder: Path
    is_v2: bool


def memberships() -> str:
    """The text of /proc/self/cgroup; "" where there are no cgroups."""
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""


def groups(root: Path, memberships: str, controller: str) -> Iterator[Group]:
    """The cgroups in which `memberships` puts a process, each with those above it, nearest first.

    Inside a container the path that is named may lie outside of what is mounted; then the mount's
    own root is this process's group. Not each of them exists, or has the controller.
    """
    for line in memberships.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            yield from (Group(folder, True) for folder in _along(root, path))
        elif controller in controllers.split(","):
            yield from (Group(folder, False) for folder in _along(root / controller, path))


def _along(mount: Path, path: str) -> list[Path]:
    here = mount / path.strip("/")
    return [
        folder for folder in (here, *here.parents) if folder == mount or mount in folder.parents
    ]
