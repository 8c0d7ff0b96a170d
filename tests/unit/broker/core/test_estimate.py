"""What the broker learns about t(b): that it is right, steady, and follows what is real."""

from random import Random

import pytest

from broker.core.estimate import BatchTime

A, C = 0.010, 0.0005


def true(size: int, factor: float = 1.0) -> float:
    return (A + C * size) * factor


def learnt(rng: Random, *, batches: int = 200, noise: float = 0.0, top: int = 32) -> BatchTime:
    estimate = BatchTime()
    for _ in range(batches):
        size = rng.randint(1, top)
        estimate.observe(size, true(size) * (1.0 + noise * rng.uniform(-1.0, 1.0)))
    return estimate


def off(estimate: BatchTime, factor: float = 1.0, sizes: tuple[int, ...] = (1, 8, 32)) -> float:
    """The worst relative error over these sizes."""
    return max(abs(estimate.predict(b) / true(b, factor) - 1.0) for b in sizes)


def test_nothing_is_known_at_first() -> None:
    estimate = BatchTime()
    assert not estimate.known
    assert estimate.predict(32) == 0.0


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_it_converges(noise: float) -> None:
    estimate = learnt(Random(1), noise=noise)
    assert estimate.known
    assert off(estimate) < 0.02 + 0.5 * noise
    assert estimate.a == pytest.approx(A, rel=0.05 + noise)
    assert estimate.c == pytest.approx(C, rel=0.05 + 2 * noise)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("times", [100.0, 10_000.0])
def test_one_hung_batch_does_not_move_it(noise: float, times: float) -> None:
    estimate = learnt(Random(2), noise=noise)
    before = [estimate.predict(b) for b in (1, 8, 32)]
    estimate.observe(16, times * true(16))
    after = [estimate.predict(b) for b in (1, 8, 32)]
    assert after == pytest.approx(before, rel=0.05)


def test_one_batch_that_took_no_time_does_not_move_it() -> None:
    estimate = learnt(Random(3), noise=0.05)
    before = estimate.predict(16)
    estimate.observe(16, 0.0)
    assert estimate.predict(16) == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("factor", [0.2, 0.5, 2.0, 5.0, 10.0])
def test_a_real_change_is_followed_within_some_forty_batches(factor: float) -> None:
    rng = Random(4)
    estimate = learnt(rng, noise=0.05)
    for _ in range(45):
        size = rng.randint(1, 32)
        estimate.observe(size, true(size, factor) * rng.uniform(0.95, 1.05))
    for size in (8, 16, 32):
        assert estimate.predict(size) == pytest.approx(true(size, factor), rel=0.3)


def test_the_figures_of_the_warm_up_are_a_start() -> None:
    estimate = BatchTime()
    estimate.seed(1, true(1))
    assert estimate.predict(1) == pytest.approx(true(1))
    estimate.seed(32, true(32))
    assert off(estimate) < 0.05


def test_seeds_do_not_outvote_batches() -> None:
    estimate = BatchTime()
    estimate.seed(1, 5.0 * true(1))
    estimate.seed(32, 5.0 * true(32))
    rng = Random(5)
    for _ in range(60):
        size = rng.randint(1, 32)
        estimate.observe(size, true(size))
    assert off(estimate, sizes=(8, 16, 32)) < 0.25
    before = estimate.predict(16)
    estimate.seed(32, 9.0)  # a worker that joins later does not undo what was learnt
    assert estimate.predict(16) == before


def test_constant_batch_sizes_are_told_exactly_and_others_sanely() -> None:
    estimate = BatchTime()
    for _ in range(100):
        estimate.observe(8, true(8))
    assert estimate.predict(8) == pytest.approx(true(8), rel=0.01)
    assert true(8) * 0.9 <= estimate.predict(16) <= 2.0 * true(8) * 1.1
    assert 0.0 < estimate.predict(1) <= true(8) * 1.01


def test_the_slope_survives_a_long_time_of_one_size() -> None:
    estimate = learnt(Random(6))
    for _ in range(500):
        estimate.observe(1, true(1))
    assert estimate.predict(1) == pytest.approx(true(1), rel=0.02)
    assert estimate.predict(32) == pytest.approx(true(32), rel=0.25)


def test_neither_part_is_ever_negative() -> None:
    rng = Random(7)
    for _ in range(50):
        estimate = BatchTime()
        for _ in range(30):
            estimate.observe(rng.randint(1, 64), rng.random() ** 8)
            assert estimate.a >= -1e-12
            assert estimate.c >= 0.0


def test_one_sample_already_speaks() -> None:
    estimate = BatchTime()
    estimate.observe(4, 0.02)
    assert estimate.known
    assert estimate.predict(4) == pytest.approx(0.02)
