"""Whether the kernel has killed for want of memory: the counts that it keeps, and when they rise.

`oom_kill` stands in `memory.events` of a cgroup v2, in `memory.oom_control` of a cgroup v1 (since
Linux 4.13), each for the processes of that group, and in /proc/vmstat for the whole host. It rises
before the process gets its signal (mm/oom_kill.c), so a death is never seen before its count.
"""

from pathlib import Path

from broker.wire import cgroups

_HOST = Path("/proc/vmstat")


def kills(text: str) -> int | None:
    """The count in one of these files; None where there is none."""
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return None


def counter(root: Path, memberships: str) -> Path:
    """The file that counts for a process of these cgroups and what it starts."""
    for group in cgroups.groups(root, memberships, "memory"):
        file = group.folder / ("memory.events" if group.is_v2 else "memory.oom_control")
        if _read(file) is not None:
            return file
    return _HOST


class OomKills:
    """Tells deaths by the kernel's OOM killer from others by SIGKILL."""

    def __init__(self, file: Path) -> None:
        """`file` is what `counter` found."""
        self._file = file
        self._seen = _read(file) or 0

    @classmethod
    def here(cls) -> "OomKills":
        """For this process and those that it starts."""
        return cls(counter(cgroups.ROOT, cgroups.memberships()))

    def forget(self) -> None:
        """What was killed so far explains no death to come."""
        self._seen = _read(self._file) or 0

    def explain(self) -> bool:
        """Whether there was a kill that has explained no death yet; it explains this one."""
        explains = (_read(self._file) or 0) > self._seen
        self._seen += explains
        return explains


def _read(file: Path) -> int | None:
    try:
        return kills(file.read_text())
    except (OSError, ValueError):
        return None
