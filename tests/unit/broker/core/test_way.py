"""How long batches are under way beside their run."""

from collections.abc import Callable

import pytest

from broker.core.way import MOST_S, Way
from broker.wire.errors import ErrorCode
from tests.unit.broker.core.driver import Driver

Make = Callable[..., Driver]


def test_nothing_is_known_before_there_were_any() -> None:
    assert Way().long_s == 0.0


def test_steady_ones_are_known_as_they_are() -> None:
    way = Way()
    for _ in range(200):
        way.observe(0.003)
    assert way.long_s == pytest.approx(0.003, rel=0.01)


def test_few_of_those_that_vary_are_longer() -> None:
    way = Way()
    for _ in range(200):
        for seconds in (0.001, 0.001, 0.001, 0.004):
            way.observe(seconds)
    assert 0.003 < way.long_s < 0.006


@pytest.mark.parametrize("seconds", [-1.0, 1e9])
def test_one_that_stood_still_says_little(seconds: float) -> None:
    way = Way()
    way.observe(seconds)
    assert 0.0 <= way.long_s <= MOST_S


@pytest.mark.parametrize("way_s", [0.0, 0.004])
def test_who_would_be_late_for_the_way_gives_its_place_to_others(
    broker: Make, way_s: float
) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=10, timings=[(1, 0.011), (10, 0.020)] * 3)
    for _ in range(100):
        driver.submit(1, left_s=9.0)
        driver.finish(after_s=0.011 + way_s, run_s=0.011)
    driver.submit(1, left_s=9.0)
    (seq,) = driver.submit(1, left_s=0.011 + 0.0245, again=True)
    driver.submit(12, left_s=1.0)
    driver.finish(after_s=0.011, run_s=0.011)
    driver.finish_all()
    if way_s:
        assert driver.failure(seq) is ErrorCode.DEADLINE_EXCEEDED
    else:
        assert driver.result(seq) == b"102"
