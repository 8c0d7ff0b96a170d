"""How many cores this process may use: its affinity mask and the quota of its cgroups; and that
threads do not keep cores busy for nothing.
"""

import os
from pathlib import Path

from workers import cgroups
from workers.cgroups import Group

BLAS_SPIN = "16"
"""OPENBLAS_THREAD_TIMEOUT: for 2**16 cycles, 25 µs, numpy's threads spin after each call, and then
sleep. By itself OpenBLAS has them spin for 2**26, 25 ms, when numpy is imported, too: on cores that
other workers could use. (Two threads, a product of 128 x 128 matrices every millisecond: 1,160 µs
of the processor each as it is by itself, 170 so, and 15 µs more until the result; as many in a row
take the same time, 31 µs each.)"""


def usable_cores() -> int:
    """Whole cores, at least 1: what the scheduler and the cgroup (v1 or v2) allow this process."""
    allowed = len(os.sched_getaffinity(0))
    quota = cgroup_quota(cgroups.ROOT, cgroups.memberships())
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def threads_per_process(cores: int, processes: int) -> int:
    """What OMP_NUM_THREADS should be for each of so many processes."""
    return max(1, cores // processes)


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
