"""Batches are compared with batches that are no smaller."""

from broker.core.config import GuardConfig
from broker.core.contrast import Times, is_shown
from broker.core.figures import LEAST_RUNS, REMEMBERED_RUNS, Run, Runs, key_of

CONFIG = GuardConfig()
ALPHA = 0.01


def known(*sizes: int, count: int = LEAST_RUNS) -> Runs:
    """A version whose batches of b take 10 + b ms."""
    runs = Runs()
    for _ in range(count):
        for size in sizes:
            runs.add(ordinary(size))
    return runs


def ordinary(size: int, times: float = 1.0, stage: int = 0) -> Run:
    return Run(stage, size, times * (0.01 + 0.001 * size))


def test_what_a_batch_is_compared_with() -> None:
    runs = known(2, 4, 16)
    assert runs.comparable(key_of(Run(0, 1, 1.0))) == (0, 1)
    assert runs.comparable(key_of(Run(0, 2, 1.0))) == (0, 1)
    assert runs.comparable(key_of(Run(0, 3, 1.0))) == (0, 2)
    assert runs.comparable(key_of(Run(0, 5, 1.0))) == (0, 4)
    assert runs.comparable(key_of(Run(0, 17, 1.0))) is None
    assert runs.comparable(key_of(Run(1, 1, 1.0))) is None
    assert known(1, count=LEAST_RUNS - 1).comparable(key_of(Run(0, 1, 1.0))) is None


def test_what_was_long_ago_is_forgotten() -> None:
    runs = known(1)
    for _ in range(10 * REMEMBERED_RUNS):
        runs.add(ordinary(8))
    assert list(runs.by_size) == [(0, 3)]
    assert sum(sketch.count for sketch in runs.by_size.values()) <= REMEMBERED_RUNS


def evidence(canary: Run, stable: Run, runs: Runs, moments: int = 40) -> bool:
    times = Times(CONFIG)
    for _ in range(moments):
        times.add([canary], [stable] * 5, runs)
    return is_shown(times.tests, ALPHA)


def test_small_batches_of_a_slow_one_beside_larger_ones() -> None:
    runs = known(4)
    assert not evidence(ordinary(1), ordinary(4), runs)
    assert evidence(ordinary(1, 2.0), ordinary(4), runs)


def test_larger_batches_are_not_held_against_it() -> None:
    assert not evidence(ordinary(32), ordinary(1), known(1))


def test_each_stage_by_itself() -> None:
    runs = known(1)
    assert not evidence(ordinary(1, 2.0, stage=1), ordinary(1), runs)


def test_the_same_outcomes_are_used_once() -> None:
    """Two sizes of the canary are compared with one size of the other: as one block."""
    runs = known(4)
    one, both = Times(CONFIG), Times(CONFIG)
    for _ in range(20):
        one.add([ordinary(4, 2.0)] * 2, [ordinary(4)] * 5, runs)
        both.add([ordinary(1, 3.0), ordinary(4, 2.0)], [ordinary(4)] * 5, runs)
    logs = [[test.evidence.log() for test in each.tests] for each in (one, both)]
    assert logs[0] == logs[1]
