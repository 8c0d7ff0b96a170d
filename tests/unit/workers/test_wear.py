"""When a worker has served its time."""

import numpy as np

from workers.task import Worn
from workers.wear import Wear, own_resident_bytes, resident_bytes

MIB = 1 << 20


def nothing() -> None:
    """There is nothing to give back."""


def test_without_limits_it_serves_for_ever() -> None:
    wear = Wear()
    wear.batches = 1 << 40
    assert wear.judge(nothing, lambda: 1 << 50) is None


def test_batches() -> None:
    wear = Wear(max_batches=3)
    wear.batches = 2
    assert wear.judge(nothing) is None
    wear.batches = 4  # it looks once a second
    assert wear.judge(nothing) == Worn("it has run 4 batches, --max-batches = 3")
    assert wear.judge(nothing) is None  # said once


def test_memory() -> None:
    wear = Wear(max_rss_bytes=100 * MIB)
    assert wear.judge(nothing, lambda: 100 * MIB) is None
    worn = wear.judge(nothing, lambda: 101 * MIB)
    assert worn == Worn("it takes 101 MiB, --max-rss = 100 MiB", drains_first=True)


def test_what_can_be_given_back_is_no_wear() -> None:
    wear = Wear(max_rss_bytes=100 * MIB)
    resident = [200 * MIB]
    assert wear.judge(lambda: resident.append(50 * MIB), lambda: resident[-1]) is None
    assert resident == [200 * MIB, 50 * MIB]


def test_shared_memory_is_not_counted() -> None:
    status = (
        "Name:\tpython\nVmRSS:\t  900 kB\nRssAnon:\t 100 kB\nRssFile:\t 20 kB\nRssShmem:\t780 kB\n"
    )
    assert resident_bytes(status) == 120 << 10
    assert resident_bytes("Name:\told kernel\n") == 0


def test_that_of_this_process_is_read() -> None:
    before = own_resident_bytes()
    array = np.ones(64 * MIB, np.uint8)
    assert own_resident_bytes() - before > 60 * MIB
    del array
