"""Delays before a dead worker is replaced."""

from workers.backoff import FIRST_DELAY_S, HEALTHY_S, MAX_DELAY_S, Backoff


def test_delays_double_up_to_a_limit() -> None:
    backoff = Backoff()
    delays = [backoff.after_death(0.0) for _ in range(12)]
    assert delays[:4] == [FIRST_DELAY_S, 0.2, 0.4, 0.8]
    assert delays[-1] == MAX_DELAY_S


def test_a_healthy_life_begins_a_new_story() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.after_death(HEALTHY_S - 0.1)
    assert backoff.after_death(HEALTHY_S) == FIRST_DELAY_S
    assert backoff.after_death(0.0) == 2 * FIRST_DELAY_S
