"""What a thread asks of the kernel: of the real one, in threads that end with their test."""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from workers import wakeups

T = TypeVar("T")

_PR_GET_TIMERSLACK = 30


def in_a_thread(asked: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asked).result()


def slice_s() -> float:
    """This thread's, as the kernel shows it where it was built to."""
    try:
        lines = Path("/proc/thread-self/sched").read_text().splitlines()
    except FileNotFoundError:
        lines = []
    found = [line for line in lines if line.startswith("se.slice ")]
    if not found:
        pytest.skip("this kernel does not show slices")
    return int(found[0].rpartition(":")[2]) / 1e9


def test_a_sleep_ends_when_it_is_due() -> None:
    def slack_ns() -> int:
        wakeups.be_woken_when_due()
        return int(ctypes.CDLL(None).prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0))

    assert in_a_thread(slack_ns) == 1


def test_the_slice_is_short_and_the_rest_as_it_was() -> None:
    def after() -> tuple[float, int, int]:
        os.setpriority(os.PRIO_PROCESS, 0, 3)
        wakeups.be_run_when_woken()
        return slice_s(), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)

    short_s, nice, policy = in_a_thread(after)
    if short_s > 0.1 or short_s == in_a_thread(slice_s):
        pytest.skip("this kernel has one slice for all")
    assert (short_s, nice, policy) == (wakeups.SLICE_S, 3, os.SCHED_OTHER)


def test_a_policy_that_was_chosen_is_left_alone() -> None:
    def after() -> int:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        wakeups.be_run_when_woken()
        return os.sched_getscheduler(0)

    assert in_a_thread(after) == os.SCHED_BATCH
