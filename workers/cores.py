"""How many cores this process may use: its affinity mask and the quota of its cgroups."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

_ROOT = Path("/sys/fs/cgroup")

_Reader: TypeAlias = Callable[[Path], float | None]


def usable_cores() -> int:
    """Whole cores, at least 1: what the scheduler and the cgroup (v1 or v2) allow this process."""
    allowed = len(os.sched_getaffinity(0))
    try:
        memberships = Path("/proc/self/cgroup").read_text()
    except OSError:
        return allowed
    quota = cgroup_quota(_ROOT, memberships)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def threads_per_process(cores: int, processes: int) -> int:
    """What OMP_NUM_THREADS should be for each of so many processes."""
    return max(1, cores // processes)


def cgroup_quota(root: Path, memberships: str) -> float | None:
    """The least quota, in cores, of this cgroup and those above it; None where there is none.

    `memberships` is the text of /proc/self/cgroup. Inside a container the path that it names may
    lie outside of what is mounted; then the mount's own root is this process's group.
    """
    quotas = []
    for line in memberships.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            quotas += _along(root, path, _read_v2)
        elif "cpu" in controllers.split(","):
            quotas += _along(root / "cpu", path, _read_v1)
    return min(quotas, default=None)


def _along(mount: Path, path: str, read: _Reader) -> list[float]:
    here = mount / path.strip("/")
    groups = [here, *here.parents]
    below = [group for group in groups if group == mount or mount in group.parents]
    return [quota for group in below if (quota := read(group)) is not None]


def _read_v2(group: Path) -> float | None:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _read_v1(group: Path) -> float | None:
    try:
        quota = int((group / "cpu.cfs_quota_us").read_text())
        period = int((group / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None
