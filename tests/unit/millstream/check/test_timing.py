"""Times of batches, and the line through them."""

import pytest

from millstream.check.timing import LEAST_CALLS, MOST_CALLS, fit, measure, sizes_to


def test_sizes() -> None:
    assert [sizes_to(most) for most in (1, 2, 3, 4, 12)] == [
        [1], [1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 8, 12],
    ]  # fmt: skip


def test_a_line_through_medians() -> None:
    calls = {size: [0.004 + 0.001 * size] * 5 for size in (1, 2, 4, 8)}
    calls[8][0] = 5.0  # an interruption
    fitted = fit(calls)
    assert fitted.a_s == pytest.approx(0.004)
    assert fitted.c_s == pytest.approx(0.001)
    assert fitted.spread == 0.0


@pytest.mark.parametrize("calls", [{1: [0.2], 4: [0.1]}, {1: [0.01], 4: [0.2]}, {1: [0.3]}])
def test_neither_part_is_less_than_nothing(calls: dict[int, list[float]]) -> None:
    fitted = fit(calls)
    assert fitted.a_s >= 0.0
    assert fitted.c_s >= 0.0
    assert fitted.a_s + fitted.c_s > 0.0


def test_spread_is_a_share() -> None:
    assert fit({1: [0.9, 1.0, 1.1]}).spread == pytest.approx(0.118, abs=0.01)


def test_a_budget_bounds_the_calls() -> None:
    sizes: list[int] = []

    def call(size: int) -> bool:
        sizes.append(size)
        return True

    measured = measure(call, [1, 2], 0.0)
    assert [each.calls for each in measured.timings] == [LEAST_CALLS, LEAST_CALLS]
    assert measure(call, [1], 3600.0).timings[0].calls == MOST_CALLS


def test_what_does_not_count_is_left_out() -> None:
    measured = measure(lambda size: size < 2, [1, 2], 0.0)
    assert [each.size for each in measured.timings] == [1]
    assert list(measured.calls_s) == [1]
