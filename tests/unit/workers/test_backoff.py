"""Delays before a dead worker is replaced."""

from workers.backoff import (
    EXCUSED_WITHIN_S,
    FIRST_DELAY_S,
    HEALTHY_S,
    MAX_DELAY_S,
    MAX_EXCUSED,
    Backoff,
)


def die(backoff: Backoff, worker: bytes = b"w", *, now: float = 0.0, ready_s: float = 0.0) -> float:
    """A death; returns the delay after it."""
    backoff.died(worker, now, ready_s=ready_s)
    return round(backoff.start_at - now, 6)


def test_delays_double_up_to_a_limit() -> None:
    backoff = Backoff()
    delays = [die(backoff) for _ in range(12)]
    assert delays[:4] == [FIRST_DELAY_S, 0.2, 0.4, 0.8]
    assert delays[-1] == MAX_DELAY_S


def test_a_healthy_life_begins_a_new_story() -> None:
    backoff = Backoff()
    for _ in range(5):
        die(backoff, ready_s=HEALTHY_S - 0.1)
    assert die(backoff, ready_s=HEALTHY_S) == FIRST_DELAY_S
    assert die(backoff) == 2 * FIRST_DELAY_S


def test_a_process_that_cannot_be_started_is_a_death() -> None:
    backoff = Backoff()
    backoff.no_start(1.0)
    assert backoff.start_at == 1.0 + FIRST_DELAY_S
    assert die(backoff, now=2.0) == 2 * FIRST_DELAY_S


def test_an_excused_death_does_not_count() -> None:
    backoff = Backoff()
    for _ in range(3):
        die(backoff)
    assert die(backoff, b"w4", now=10.0) == 0.8
    assert backoff.excuse(b"w4", 10.05)
    assert backoff.start_at == 10.0 + FIRST_DELAY_S
    assert die(backoff, now=11.0) == 0.8  # as if there had been three


def test_an_excuse_that_comes_late_changes_what_is_next() -> None:
    backoff = Backoff()
    die(backoff, b"w1", now=1.0)
    assert die(backoff, b"w2", now=2.0) == 0.2
    assert backoff.excuse(b"w1", 2.1)
    assert backoff.start_at == 2.2  # of the death that was not excused
    assert die(backoff, now=3.0) == 0.2


def test_a_death_is_excused_once_and_only_where_it_happened() -> None:
    backoff = Backoff()
    die(backoff, b"w1")
    assert not backoff.excuse(b"of another post", 0.0)
    assert backoff.excuse(b"w1", 0.0)
    assert not backoff.excuse(b"w1", 0.0)
    assert not Backoff().excuse(b"w1", 0.0)


def test_who_dies_of_everything_is_not_excused_for_ever() -> None:
    backoff = Backoff()
    for number in range(MAX_EXCUSED):
        assert die(backoff, b"%d" % number, now=float(number)) == FIRST_DELAY_S
        backoff.excuse(b"%d" % number, float(number))
    assert die(backoff, b"x", now=20.0) == FIRST_DELAY_S
    assert backoff.excuse(b"x", 20.0)  # it is known, and counts all the same
    assert die(backoff, b"y", now=21.0) == 2 * FIRST_DELAY_S
    backoff.excuse(b"y", EXCUSED_WITHIN_S)  # the first of ten was a minute ago
    assert die(backoff, b"z", now=EXCUSED_WITHIN_S) == 2 * FIRST_DELAY_S


def test_what_is_remembered_is_bounded() -> None:
    backoff = Backoff()
    for number in range(100):
        die(backoff, b"%d" % number)
    assert not backoff.excuse(b"0", 0.0)
    assert backoff.excuse(b"99", 0.0)
