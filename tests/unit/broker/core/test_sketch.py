"""Quantiles out of little room."""

from random import Random

import pytest

from broker.core.sketch import RELATIVE_ERROR, Sketch

SHARES = (0.0, 0.01, 0.25, 0.5, 0.95, 0.99, 1.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_quantiles_are_off_by_two_percent_at_most(spread: float, sign: float) -> None:
    rng = Random(1)
    values = sorted(sign * rng.lognormvariate(0.0, spread) for _ in range(2000))
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    for share in SHARES:
        exact = values[int(share * (len(values) - 1))]
        assert sketch.quantile(share) == pytest.approx(exact, rel=RELATIVE_ERROR * 1.001)


def test_both_sides_of_zero() -> None:
    sketch = Sketch()
    for value in (-10.0, -1.0, 0.0, 1e-300, 1.0, 10.0):
        sketch.add(value)
    found = [sketch.quantile(at / 5) for at in range(6)]
    assert found == pytest.approx([-10, -1, 0, 0, 1, 10], rel=RELATIVE_ERROR * 1.001)


def test_an_empty_one() -> None:
    assert Sketch().quantile(0.5) == 0.0


def test_extremes_take_no_more_room() -> None:
    sketch = Sketch()
    for exponent in range(-300, 300):
        sketch.add(10.0**exponent)
        sketch.add(-(10.0**exponent))
    assert len(sketch._above) <= 1211
    assert sketch.quantile(1.0) == pytest.approx(1e12, rel=RELATIVE_ERROR)


def test_what_is_old_fades() -> None:
    sketch = Sketch(fades_at=100)
    for value in [1.0] * 99 + [5.0] * 500:
        sketch.add(value)
    assert sketch.count < 100
    assert sketch.quantile(0.1) == pytest.approx(5.0, rel=RELATIVE_ERROR)
