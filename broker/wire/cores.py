"""How many cores this process may use: its affinity mask and the quota of its cgroups."""

import os
from pathlib import Path

from broker.wire import cgroups
from broker.wire.cgroups import Group


def usable_cores() -> int:
    """Whole cores, at least 1: what the scheduler and the cgroup (v1 or v2) allow this process."""
    allowed = len(os.sched_getaffinity(0))
    quota = cgroup_quota(cgroups.ROOT, cgroups.memberships())
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def cgroup_quota(root: Path, memberships: str) -> float | None:
    """The least quota, in cores, of this cgroup and those above it; None where there is none.

    `memberships` is the text of /proc/self/cgroup.
    """
    quotas = map(_quota, cgroups.groups(root, memberships, "cpu"))
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota(group: Group) -> float | None:
    try:
        if group.is_v2:
            quota, period = (group.folder / "cpu.max").read_text().split()
        else:
            quota = (group.folder / "cpu.cfs_quota_us").read_text()
            period = (group.folder / "cpu.cfs_period_us").read_text()
        cores = int(quota) / int(period)  # "max" is no number
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return cores if cores > 0 else None
