"""Freed memory is kept between batches, and goes back when there are none."""

import subprocess
import sys
import textwrap
from pathlib import Path

from workers.heap import MALLOC_TUNABLES

CODE = """
    import numpy as np
    from workers.heap import EVERY_S, IDLE_S, Heap

    def resident_mib():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4 / 1024

    def batch():
        arrays = [np.ones(1 << 20, np.float32) for _ in range(20)]
        del arrays

    heap = Heap()
    batch()
    before = resident_mib()
    heap.tick(1.0 + IDLE_S, 1.0)
    kept = resident_mib() - before
    heap.tick(2.0 + IDLE_S, 1.0)
    idle = resident_mib() - before
    batch()
    heap.tick(2.0 + IDLE_S + EVERY_S, 2.0 + EVERY_S)
    again = resident_mib() - before
    heap.tick(3.0 + IDLE_S + EVERY_S, 3.0 + EVERY_S)
    busy = resident_mib() - before
    print(*(round(each / 10) for each in (kept, idle, again, busy)))
"""


def run(tunables: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CODE)],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "GLIBC_TUNABLES": tunables},
    )
    return ran.stdout.strip()


def test_it_is_kept_for_the_next_batch_and_given_back_after_the_last() -> None:
    assert run(MALLOC_TUNABLES) == "0 -8 0 -8"


def test_who_has_tuned_malloc_is_left_alone() -> None:
    kept = MALLOC_TUNABLES.replace("trim_threshold=268435456", "trim_threshold=268435457")
    assert run(kept) == "0 0 0 0"
