"""Requests a second, and the worst lag since it was asked."""

from gateway.ui.pulse import Pulse


def test_a_rate_is_of_the_last_second() -> None:
    pulse = Pulse(10.0)
    pulse.tick(5, 10.5)
    assert pulse.per_s == 0.0
    pulse.tick(30, 11.0)
    assert pulse.per_s == 30.0
    pulse.tick(30, 12.5)
    assert pulse.per_s == 0.0


def test_the_worst_lag_is_told_once() -> None:
    pulse = Pulse(0.0)
    for late_s in (-0.001, 0.004, 0.002):
        pulse.lagged(late_s)
    assert pulse.take_lag_ms() == 4.0
    assert pulse.take_lag_ms() == 0.0
