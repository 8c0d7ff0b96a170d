"""When a shadow is shown to answer too seldom as the stable version does, and when it is not."""

from random import Random

import pytest

from broker.core import traffic as t
from broker.core.agreement import Agreement
from broker.core.config import GuardConfig
from broker.core.likeness import Likeness
from broker.core.traffic import Traffic
from broker.core.watch import Watches

GUARD = GuardConfig(agreement=0.95)


def run(
    rng: Random, unlike: float, pairs: int, likeness: Likeness | None = None, each: int = 10
) -> int | None:
    """Until there is a verdict: after how many pairs, if ever."""
    likeness = likeness or Likeness("3", "2", GUARD)
    figures = Agreement()
    likeness.add(figures)
    for _ in range(0, pairs, each):
        for _ in range(each):
            figures.judge("differs" if rng.random() < unlike else "agreed")
        likeness.add(figures)
        if likeness.verdict():
            return likeness.compared
    return None


def test_of_two_hundred_that_agree_just_often_enough_at_most_two_are_ended() -> None:
    rng = Random(3)
    assert sum(run(rng, 0.05, 2000) is not None for _ in range(200)) <= 2


def test_one_that_never_agrees_is_found_as_soon_as_it_may_be() -> None:
    assert run(Random(1), 1.0, 1000) == GUARD.min_requests


@pytest.mark.parametrize(("unlike", "most"), [(0.2, 300), (0.1, 1500), (0.06, 40_000)])
def test_how_soon_one_is_found_that_agrees_too_seldom(unlike: float, most: int) -> None:
    found = [run(Random(seed), unlike, most, each=50) for seed in range(5)]
    assert all(found), found


def test_where_all_are_to_agree_hardly_any_may_differ() -> None:
    strict = GuardConfig(agreement=1.0)
    assert run(Random(1), 0.0, 5000, Likeness("3", "2", strict)) is None
    assert run(Random(1), 0.01, 5000, Likeness("3", "2", strict)) is not None


def test_what_it_says_and_that_it_counts_from_its_own_beginning() -> None:
    figures = Agreement(compared=1000, differed=600, failed=400)
    likeness = Likeness("3", "2", GUARD)
    likeness.add(figures)
    assert (likeness.compared, likeness.verdict()) == (0, "")
    for number in range(60):
        figures.judge(("agreed", "differs", "failed")[number % 3])
    likeness.add(figures)
    assert likeness.verdict() == (
        "agreement: 33.3 % (20 of 60) of its answers agree with those of version 2, 95 % are wanted"
    )


def test_figures_that_were_forgotten_begin_anew() -> None:
    likeness = Likeness("3", "2", GUARD)
    likeness.add(Agreement(compared=1000, agreed=1000))
    likeness.add(Agreement(compared=10, agreed=9, differed=1))
    assert likeness.compared == 10


def followed(watches: Watches, traffic: Traffic) -> Likeness | None:
    """What is looked at, with this traffic."""
    watches.follow(traffic, 1.0)
    return watches.likeness


def test_which_shadow_is_looked_at() -> None:
    watches = Watches(GUARD, "2")
    state = t.assign(t.take_over(Traffic(), "2"), {"2": 1})
    first = followed(watches, t.shadow(state, "3"))
    assert first is not None
    split = t.assign(state, {"2": 9, "4": 1})
    assert followed(watches, t.shadow(split, "3")) is first
    after = followed(watches, t.shadow(t.assign(state, {"4": 1}), "3"))
    assert after is not None
    assert (after.shadow, after.stable) == ("3", "4")
    assert followed(watches, state) is None
    assert followed(Watches(GuardConfig(), "2"), t.shadow(state, "3")) is None
