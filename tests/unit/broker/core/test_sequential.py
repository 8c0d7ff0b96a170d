"""Tests under repeated looks: fair bets, exact to the last digit, and false alarms as promised."""

from collections.abc import Iterator
from itertools import product
from math import comb, exp, inf, log
from random import Random

import pytest

from broker.core.sequential import (
    FIRST_RESTART,
    RATIOS,
    Evidence,
    OddsTest,
    RateTest,
    log_share,
    upper_bound,
)

ALPHA = 0.01


@pytest.mark.parametrize("ratio", [1.0, 0.3, 2.0, 1000.0])
@pytest.mark.parametrize(
    ("canary", "stable", "bad"), [(5, 95, 5), (10, 10, 7), (3, 4, 6), (1, 1, 1)]
)
def test_the_chances_of_each_division(canary: int, stable: int, bad: int, ratio: float) -> None:
    possible = range(max(0, bad - stable), min(bad, canary) + 1)
    weights = [comb(canary, at) * comb(stable, bad - at) * ratio**at for at in possible]
    for at, weight in zip(possible, weights, strict=True):
        wanted = log(weight / sum(weights))
        assert log_share(canary, at, stable, bad, ratio) == pytest.approx(wanted, abs=1e-9)


def test_large_blocks_are_quick_and_sane() -> None:
    total = sum(exp(log_share(50_000, at, 50_000, 1_000, 2.0)) for at in range(550, 780))
    assert total == pytest.approx(1.0)
    assert log_share(50_000, 0, 50_000, 40_000, 1000.0) < -100_000


@pytest.mark.parametrize("chance", [0.01, 0.3, 0.9])
def test_a_block_is_a_fair_bet_whatever_the_chance_that_both_have(chance: float) -> None:
    """The expected gain, over all that can come out of 4 and 6 requests, is 1."""
    expected = 0.0
    for canary_bad, stable_bad in product(range(5), range(7)):
        test = OddsTest()
        test.add(4, canary_bad, 6, stable_bad)
        bad = canary_bad + stable_bad
        likely = 1.0 * comb(4, canary_bad) * comb(6, stable_bad)
        likely *= chance**bad * (1 - chance) ** (10 - bad)
        expected += likely * exp(test.evidence.log())
    assert expected == pytest.approx(1.0)


def test_a_better_canary_makes_it_a_losing_bet() -> None:
    expected = 0.0
    for canary_bad, stable_bad in product(range(5), range(7)):
        test = OddsTest()
        test.add(4, canary_bad, 6, stable_bad)
        likely = comb(4, canary_bad) * 0.1**canary_bad * 0.9 ** (4 - canary_bad)
        likely *= comb(6, stable_bad) * 0.3**stable_bad * 0.7 ** (6 - stable_bad)
        expected += likely * exp(test.evidence.log())
    assert expected < 1.0


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_a_known_rate_is_a_fair_bet(rate: float) -> None:
    expected = 0.0
    for bad in range(9):
        test = RateTest(rate)
        test.add(8, bad)
        expected += comb(8, bad) * rate**bad * (1 - rate) ** (8 - bad) * exp(test.evidence.log())
    assert expected == pytest.approx(1.0)


def test_bets_that_begin_later_are_paid_from_the_same_stake() -> None:
    evidence = Evidence()
    for _ in range(40):
        evidence.see(FIRST_RESTART)
        assert evidence.log() == pytest.approx(0.0)
    evidence.multiply([-inf] * len(RATIOS), 1)
    assert exp(evidence.log()) == pytest.approx(1 / 8)  # what is not at stake yet


def alarm(
    chances: Iterator[tuple[float, float]], rng: Random, *, share: float, block: int, alpha: float
) -> int | None:
    """After how many requests of the canary there is an alarm. `chances`: of the two, by block."""
    test = OddsTest()
    seen, due = 0, 0.0
    for canary_chance, stable_chance in chances:
        counts = [0, 0, 0, 0]
        for _ in range(block):
            due += share
            if due >= 1.0:
                due -= 1.0
                counts[0] += 1
                counts[1] += rng.random() < canary_chance
            else:
                counts[2] += 1
                counts[3] += rng.random() < stable_chance
        test.add(*counts)
        seen += counts[0]
        if test.evidence.log() >= -log(alpha):
            return seen
    return None


def always(canary: float, stable: float, blocks: int) -> Iterator[tuple[float, float]]:
    return iter([(canary, stable)] * blocks)


def test_equal_ones_are_hardly_ever_told_apart() -> None:
    """Looked at after each block; the common chance rises and falls, as in a bad hour."""
    rng = Random(7)
    alarms = 0
    for run in range(400):
        base, share = (0.0005, 0.02, 0.3)[run % 3], (0.5, 0.1)[run % 2]
        chances = ((c, c) for c in (base * (8 if 30 < at < 60 else 1) % 1.0 for at in range(120)))
        alarms += alarm(chances, rng, share=share, block=40, alpha=0.05) is not None
    assert alarms <= 20  # 5 % were allowed


@pytest.mark.parametrize(
    ("canary", "stable", "within"),
    [(1.0, 0.0, 5), (1.0, 0.05, 10), (0.1, 0.001, 120), (0.2, 0.05, 200)],
)
def test_a_worse_one_is_found_soon(canary: float, stable: float, within: int) -> None:
    rng = Random(3)
    found = [
        alarm(always(canary, stable, 400), rng, share=0.05, block=100, alpha=ALPHA)
        for _ in range(21)
    ]
    assert sorted(each or 9999 for each in found)[10] <= within


def test_trouble_that_begins_late_is_found_too() -> None:
    chances = iter([(0.0, 0.02)] * 400 + [(0.5, 0.02)] * 40)
    found = alarm(chances, Random(1), share=0.1, block=100, alpha=ALPHA)
    assert found is not None
    assert 4000 < found < 4100


def test_the_bound_of_a_rate() -> None:
    assert upper_bound(0, 1000, 0.01) == pytest.approx(1 - 0.01**0.001)
    assert upper_bound(10, 10, 0.01) == 1.0
    rng = Random(5)
    missed = sum(
        upper_bound(sum(rng.random() < 0.05 for _ in range(200)), 200, 0.05) < 0.05
        for _ in range(400)
    )
    assert missed <= 20
