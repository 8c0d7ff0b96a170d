"""Reads from the system how much processor time processes have used."""

from collections.abc import Iterable

import psutil  # type: ignore[import-untyped]  # ships no types


def processor_s(pids: Iterable[int]) -> float:
    """Of all these together, in user and system mode, since each began; of one that has ended
    nothing is known any more.
    """
    total_s = 0.0
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total_s += times.user + times.system
    return total_s
