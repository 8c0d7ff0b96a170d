"""Which items a batch takes when not all can be in time."""

from collections.abc import Callable

import pytest

from broker.wire.errors import ErrorCode
from tests.unit.broker.core.driver import Driver

Make = Callable[..., Driver]

TEN_AND_ONE = [(1, 0.011), (10, 0.020)] * 3
"""t(b) = 10 + b ms."""


def busy(broker: Make) -> Driver:
    """One worker that holds an item with time."""
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=10, timings=TEN_AND_ONE)
    driver.submit(1, left_s=9.0)
    return driver


def test_the_place_of_the_hopeless_is_taken_by_those_behind_them(broker: Make) -> None:
    driver = busy(broker)
    driver.submit(5, left_s=0.05, again=True)
    driver.now += 0.045
    driver.submit(8, left_s=1.0)
    assert driver.payloads()[1] == list(range(7, 15))
    assert {driver.failure(seq) for seq in range(2, 7)} == {ErrorCode.DEADLINE_EXCEEDED}
    driver.finish_all()


def test_a_batch_is_small_where_all_are_in_a_hurry(broker: Make) -> None:
    driver = busy(broker)
    driver.submit(9, left_s=0.026, again=True)
    driver.finish(after_s=0.011)
    (batch,) = driver.payloads()
    assert len(batch) in {3, 4, 5}, "15 ms are left: t(5) = 15, and the way back"
    driver.finish(after_s=0.0145)
    driver.finish_all()


def test_a_few_in_a_hurry_do_not_make_batches_small(broker: Make) -> None:
    driver = busy(broker)
    driver.submit(2, left_s=0.026, again=True)
    driver.submit(12, left_s=1.0)
    driver.now += 0.011
    driver.finish()
    assert len(driver.payloads()[0]) == 10
    driver.finish_all()


@pytest.mark.parametrize("others", [0, 3])
def test_one_that_is_a_little_late_runs_only_where_nobody_wants_its_place(
    broker: Make, others: int
) -> None:
    driver = busy(broker)
    (seq,) = driver.submit(1, left_s=0.0235, again=True)
    driver.submit(others, left_s=1.0)
    driver.finish(after_s=0.011)
    driver.finish_all()
    if others:
        assert driver.failure(seq) is ErrorCode.DEADLINE_EXCEEDED
    else:
        assert driver.result(seq) == b"2"


def test_what_is_sent_ahead_is_judged_by_when_it_will_begin(broker: Make) -> None:
    driver = busy(broker)
    driver.submit(10, left_s=0.028, again=True)  # full: sent ahead at once, behind 11 ms
    driver.tick()
    assert driver.answered(), "it would end after 31 ms"
    driver.finish_all()
