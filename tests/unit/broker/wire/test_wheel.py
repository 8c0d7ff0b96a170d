"""The timing wheel against a plain dictionary, and its promises about time and memory."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.wire.wheel import SLOT_S, TimerWheel

TIMES = st.floats(min_value=0.0, max_value=2.0)


def test_what_is_due_comes_out_once_never_early_and_at_most_a_slot_late() -> None:
    wheel: TimerWheel[int, int] = TimerWheel()
    rng = Random(1)
    due = {key: rng.uniform(5.0, 6.0) for key in range(500)}
    for key, at in due.items():
        wheel.add(at, key, key)
    out: dict[int, float] = {}
    now = 4.9
    while len(out) < 500:
        now += 0.001
        for key in wheel.expired(now):
            assert key not in out
            out[key] = now
    for key, at in due.items():
        assert at <= out[key] <= at + SLOT_S + 0.0011


def test_an_empty_wheel_is_never_due() -> None:
    wheel: TimerWheel[int, str] = TimerWheel()
    assert wheel.next_due() is None
    assert list(wheel.expired(1e9)) == []
    wheel.discard(1.0, 1)
    assert len(wheel) == 0


def test_next_due_is_when_expired_has_something_to_give() -> None:
    wheel: TimerWheel[int, str] = TimerWheel()
    wheel.add(3.0, 1, "three")
    wheel.add(2.0, 2, "two")
    at = wheel.next_due()
    assert at is not None
    assert 2.0 < at <= 2.0 + SLOT_S
    assert list(wheel.expired(at - 1e-9)) == []
    assert list(wheel.expired(at)) == ["two"]
    wheel.discard(3.0, 1)
    assert wheel.next_due() is None


def test_the_same_slot_may_be_filled_again_after_it_was_emptied() -> None:
    wheel: TimerWheel[int, str] = TimerWheel()
    for _ in range(3):
        wheel.add(1.0, 1, "one")
        wheel.discard(1.0, 1)
        assert wheel.next_due() is None
    wheel.add(1.0, 1, "one")
    assert list(wheel.expired(2.0)) == ["one"]
    wheel.add(1.0, 2, "past")
    assert list(wheel.expired(2.0)) == ["past"]


def test_discarding_while_expired_is_read_is_no_error() -> None:
    wheel: TimerWheel[int, int] = TimerWheel()
    for key in range(10):
        wheel.add(1.0, key, key)
        wheel.add(1.5, key + 100, key + 100)
    seen = []
    for key in wheel.expired(1.2):
        seen.append(key)
        wheel.discard(1.0, key)
        wheel.discard(1.5, key + 100)
        wheel.add(3.0, key, key)
    assert seen == list(range(10))
    assert len(wheel) == 10


def test_discarded_entries_leave_nothing_behind() -> None:
    wheel: TimerWheel[int, bytes] = TimerWheel()
    for n in range(20_000):
        wheel.add(10.0 + n * 1e-4, n, b"x")
        wheel.discard(10.0 + n * 1e-4, n)
        if n % 100 == 0:
            assert wheel.next_due() is None
    wheel.next_due()
    assert len(wheel) == 0
    assert len(wheel._slots) <= 1


@pytest.mark.parametrize("due", [-1e6, -0.001, 0.0, 1e9])
def test_odd_moments(due: float) -> None:
    wheel: TimerWheel[int, int] = TimerWheel()
    wheel.add(due, 1, 1)
    assert list(wheel.expired(due + 2 * SLOT_S)) == [1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("adt"), st.integers(0, 9), TIMES), max_size=60))
def test_it_agrees_with_a_dictionary(steps: list[tuple[str, int, float]]) -> None:
    wheel: TimerWheel[int, int] = TimerWheel()
    plain: dict[int, float] = {}
    now = 0.0
    for step, key, value in steps:
        if step == "a" and key not in plain:
            plain[key] = value
            wheel.add(value, key, key)
        elif step == "d" and key in plain:
            wheel.discard(plain.pop(key), key)
        elif step == "t":
            now = max(now, value)
            for out in wheel.expired(now):
                assert plain.pop(out) <= now
            assert all(at > now - 2 * SLOT_S for at in plain.values())
        assert len(wheel) == len(plain)
        due = wheel.next_due()
        assert (due is None) == (not plain)
