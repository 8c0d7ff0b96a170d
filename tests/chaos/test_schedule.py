"""Schedules: the same for the same seed, and as many faults as were asked for."""

from collections import Counter

import pytest

from tests.chaos.schedule import KILLS, LENGTHS_S, MISHAPS, OF_ONE, POISONS, ROLLOUTS, Kind, draw


def test_the_same_seed_draws_the_same_schedule() -> None:
    assert draw(1, seconds=60.0, rate=1.0) == draw(1, seconds=60.0, rate=1.0)
    assert draw(1, seconds=60.0, rate=1.0) != draw(2, seconds=60.0, rate=1.0)


def test_kills_come_at_the_rate_and_so_does_all_else() -> None:
    faults = draw(3, seconds=600.0, rate=1.0)
    kills = [fault for fault in faults if fault.kind in KILLS]
    assert len(kills) == 600
    assert len(faults) == 1200
    assert len(draw(3, seconds=600.0, rate=1.0, has_versions=True)) == 1200 + 120
    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    assert 0.0 <= faults[0].at_s <= faults[-1].at_s <= 600.0


@pytest.mark.parametrize("seed", range(5))
def test_every_kind_comes_where_there_is_room_for_it(seed: int) -> None:
    faults = draw(seed, seconds=5.0, rate=3.6, has_versions=True)
    assert len(faults) == 36 + 4
    assert {fault.kind for fault in faults} == set(Kind)


def test_a_larger_deployment_has_more_faults_but_of_what_it_has_one_of() -> None:
    once = Counter(fault.kind for fault in draw(4, seconds=60.0, rate=1.0))
    larger = Counter(fault.kind for fault in draw(4, seconds=60.0, rate=1.0, scale=10))
    for kind, count in once.items():
        assert larger[kind] == count * (1 if kind in OF_ONE else 10)


def test_the_tables_know_every_kind() -> None:
    assert KILLS.keys() | MISHAPS.keys() | ROLLOUTS.keys() == set(Kind)
    assert not KILLS.keys() & MISHAPS.keys()
    assert POISONS.keys() < MISHAPS.keys()
    for fault in draw(5, seconds=600.0, rate=1.0):
        least, most = LENGTHS_S.get(fault.kind, (0.0, 0.5))
        assert least <= fault.for_s <= most
