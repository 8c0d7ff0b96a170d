"""Shares, promotions and rollbacks: from one state of the traffic to the next."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core import traffic as t
from broker.core.traffic import Split, Traffic, TrafficError


def served(*versions: str) -> Traffic:
    """As after these took over, one after the other."""
    state = Traffic()
    for version in versions:
        state = t.take_over(state, version)
    return state


def shares(state: Traffic, ready: set[str], requests: int = 10_000) -> dict[str, int]:
    split = Split(state, ready)
    return dict(Counter(split.choose(0) for _ in range(requests)))


@pytest.mark.parametrize(
    ("older", "newer"),
    [("2", "10"), ("v1.9", "v1.10"), ("2026-09-30", "2026-11-01"), ("blue", "green"), ("x", "1")],
)
def test_numbers_in_versions_count_as_numbers(older: str, newer: str) -> None:
    assert t.age_key(older) < t.age_key(newer)


def test_what_takes_over_is_stable_and_what_was_is_remembered() -> None:
    state = served("1", "2")
    assert (state.stable, state.previous, state.weights) == ("2", "1", {"2": 1.0})
    assert state.all_labels() == {"stable": "2"}


def test_a_split_has_a_stable_and_a_canary() -> None:
    state = t.assign(served("1", "2"), {"2": 95, "3": 5, "4": 0})
    assert (state.stable, state.previous, state.canary) == ("2", "1", "3")
    assert state.all_labels() == {"stable": "2", "canary": "3"}
    assert not state.follows
    assert state.named() == {"2", "3"}


def test_the_version_with_most_becomes_stable_where_the_stable_one_has_nothing_left() -> None:
    state = t.assign(served("1", "2"), {"3": 40, "4": 60})
    assert (state.stable, state.previous) == ("4", "2")
    assert t.assign(served("1"), {"3": 1, "10": 1}).stable == "3"  # the older of two alike


@pytest.mark.parametrize(
    "weights", [{}, {"1": 0.0}, {"1": -1.0}, {"1": float("nan")}, {"1": float("inf")}]
)
def test_shares_that_are_none_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(TrafficError):
        t.assign(served("1"), weights)


def test_rollback_of_a_split_returns_to_the_stable_one() -> None:
    state = t.roll_back(t.assign(served("1", "2"), {"2": 50, "3": 50}), "errors")
    assert state.weights == {"2": 1.0}
    assert (state.stable, state.previous, state.rejected) == ("2", "1", {"3": "errors"})


def test_rollback_without_a_split_returns_to_the_version_before() -> None:
    state = t.roll_back(served("1", "2"), "slow")
    assert (state.weights, state.stable, state.rejected) == ({"1": 1.0}, "1", {"2": "slow"})
    with pytest.raises(TrafficError, match="no version before"):
        t.roll_back(state, "again")


def test_rollback_of_a_shadow_leaves_the_traffic_alone() -> None:
    state = t.roll_back(t.shadow(served("1", "2"), "3"), "disagrees")
    assert (state.weights, state.shadow, state.rejected) == ({"2": 1.0}, "", {"3": "disagrees"})


def test_a_shadow_that_was_ended_is_not_promoted_before_somebody_wants_it_again() -> None:
    state = t.turn_away(t.shadow(t.assign(served("1", "2"), {"2": 9, "4": 1}), "3"), "unlike")
    assert (state.weights, state.shadow) == ({"2": 9.0, "4": 1.0}, "")
    assert (state.rejected, state.held) == ({"3": "unlike"}, ("3",))
    with pytest.raises(TrafficError, match=r"3 is not promoted.*\(unlike\)"):
        t.promote(state, "3", steps=(5, 100), every_s=1)
    for lifted in (t.shadow(state, "3"), t.assign(state, {"2": 1, "3": 1})):
        assert (lifted.rejected, lifted.held) == ({}, ())
        assert t.promote(lifted, "3", steps=(5, 100), every_s=1).promotion is not None


def test_what_was_rolled_back_comes_in_again_by_name_alone() -> None:
    rolled_back = t.roll_back(served("1", "2"), "slow")
    assert t.assign(rolled_back, {"2": 1}).rejected == {}
    assert t.assign(rolled_back, {"1": 1}).rejected == {"2": "slow"}
    assert t.promote(rolled_back, "2", steps=(5, 100), every_s=1).rejected == {}


def test_a_promotion_ends_with_the_new_version_stable() -> None:
    state = t.promote(served("1", "2"), "3", steps=(1, 25, 100), every_s=60)
    assert state.weights == {"2": 99.0, "3": 1.0}
    state = t.next_step(state)
    assert state.weights == {"2": 75.0, "3": 25.0}
    state = t.next_step(state)
    assert (state.weights, state.stable) == ({"3": 100.0}, "2")  # rollback would still go to 2
    assert t.roll_back(state, "late").weights == {"2": 1.0}
    state = t.next_step(state)
    assert (state.stable, state.previous, state.promotion) == ("3", "2", None)
    assert state.follows  # as before


@pytest.mark.parametrize("steps", [(), (5, 5), (25, 5), (0, 5), (5, 101), (float("nan"),)])
def test_steps_that_do_not_grow_are_refused(steps: tuple[float, ...]) -> None:
    with pytest.raises(TrafficError, match="steps"):
        t.promote(served("1"), "2", steps=steps, every_s=1)


def test_labels_follow_or_are_given() -> None:
    state = t.label(served("1", "2"), {"last_good": "1"})
    assert state.all_labels() == {"stable": "2", "last_good": "1"}
    assert t.label(state, {"last_good": ""}).labels == {}
    for wrong in ("stable", "a b", ""):
        with pytest.raises(TrafficError):
            t.label(state, {wrong: "1"})


def test_sticky_rules() -> None:
    for rule in ("header:X-User-Id", "cookie:sid", "request-id", ""):
        assert t.stick(served("1"), rule).sticky == rule
    for rule in ("header:", "header:a b", "user", "cookie:a;b"):
        with pytest.raises(TrafficError):
            t.stick(served("1"), rule)


# ------------------------------------------------------------------ the choice


def test_shares_are_met_closely_over_any_run() -> None:
    split = Split(t.assign(served("2"), {"2": 95, "3": 5}), {"2", "3"})
    for _ in range(10):
        some = Counter(split.choose(0) for _ in range(1000))
        assert abs(some["3"] - 50) <= 3


def test_a_key_always_gets_the_same_version_and_keys_meet_the_shares() -> None:
    state = t.assign(served("2"), {"2": 80, "3": 20})
    first, second = (Split(state, {"2", "3"}) for _ in range(2))
    chosen = [first.choose(key) for key in range(1, 20_001)]
    assert chosen == [second.choose(key) for key in range(1, 20_001)]
    assert abs(chosen.count("3") - 4000) < 3 * (20_000 * 0.2 * 0.8) ** 0.5


def test_a_growing_share_takes_keys_and_gives_none_back() -> None:
    state = served("2")
    before: set[int] = set()
    for share in (5, 25, 60, 100):
        split = Split(t.assign(state, {"2": 100 - share, "3": share}), {"2", "3"})
        now = {key for key in range(1, 2000) if split.choose(key) == "3"}
        assert before <= now
        before = now


def test_a_version_that_is_not_ready_gets_nothing() -> None:
    state = t.assign(served("2"), {"2": 50, "3": 50})
    assert shares(state, {"2"}) == {"2": 10_000}
    assert shares(state, {"3"}) == {"3": 10_000}
    assert shares(state, {"1"}) == {"1": 10_000}  # none that has a share, and not the stable one
    assert set(shares(state, set())) == {"2", "3"}  # they wait
    assert Split(Traffic(), set()).choose(0) == ""


@given(
    st.dictionaries(st.sampled_from(["1", "2", "3", "10", "b"]), st.floats(0, 1e6), max_size=5),
    st.sets(st.sampled_from(["1", "2", "3"])),
    st.integers(0, 2**64 - 1),
)
def test_whatever_the_shares_a_choice_is_one_of_them_or_ready(
    weights: dict[str, float], ready: set[str], key: int
) -> None:
    try:
        state = t.assign(served("1"), weights)
    except TrafficError:
        return
    assert Split(state, ready).choose(key) in set(state.weights) | ready
