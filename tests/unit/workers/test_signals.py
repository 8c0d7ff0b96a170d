"""Signals as something to wait for."""

import signal
from collections.abc import Iterator

import pytest

from workers.signals import SignalCounter

SIGNUM = signal.SIGUSR1


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    handler = signal.getsignal(SIGNUM)
    yield
    signal.signal(SIGNUM, handler)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [SIGNUM])


def test_they_are_counted() -> None:
    counts: list[int] = []
    counter = SignalCounter(SIGNUM, on_signal=counts.append)
    for _ in range(2):
        signal.raise_signal(SIGNUM)
    assert (counter.count, counter.last, counts) == (2, SIGNUM, [1, 2])


def test_one_that_somebody_has_blocked_comes_all_the_same() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [SIGNUM])
    counter = SignalCounter(SIGNUM)
    signal.raise_signal(SIGNUM)
    assert counter.count == 1
