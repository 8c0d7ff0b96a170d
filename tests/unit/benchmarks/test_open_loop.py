"""Plans: as chance draws them, the same for a seed. Counts: each end in its place, and no other."""

import itertools
import statistics

import pytest

from benchmarks import open_loop
from benchmarks.open_loop import Figures, Log, Plan
from millstream.bench.open_loop import ABANDONED, BROKEN

PLAN = Plan(rate_per_s=1.0, seconds=4.0, deadline_s=0.1, seed=1, warm_up_s=1.0)
MOMENTS = [0.5, 1.0, 2.0, 3.0, 4.5, 5.0]


def counted(ends: list[tuple[int, float]], *, lag_s: float = 0.0, unreadable: str = "") -> Figures:
    """The figures where the requests at MOMENTS ended so: status, and seconds after the moment."""
    log = Log(len(MOMENTS))
    log.unreadable = unreadable
    for number, (moment, (status, took_s)) in enumerate(zip(MOMENTS, ends, strict=True)):
        log.begin(number, moment, moment + lag_s)
        log.end(number, moment, status, moment + took_s)
    return open_loop.count(PLAN, MOMENTS, log)


def test_gaps_are_exponential_and_a_seed_repeats_them() -> None:
    plan = Plan(rate_per_s=1000.0, seconds=20.0, deadline_s=1.0, seed=7)
    moments = plan.moments()
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    # The mean and the deviation of an exponential distribution are the same.
    assert statistics.fmean(gaps) == pytest.approx(0.001, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.001, rel=0.03)
    assert moments == plan.moments()
    assert moments != Plan(rate_per_s=1000.0, seconds=20.0, deadline_s=1.0, seed=8).moments()


def test_load_goes_on_before_and_after_what_counts() -> None:
    plan = Plan(rate_per_s=1000.0, seconds=2.0, deadline_s=0.5, seed=7, warm_up_s=1.0)
    moments = plan.moments()
    places = plan.counted(moments)
    assert moments[-1] == pytest.approx(3.5, abs=0.05)
    assert moments[places[0] - 1] < 1.0 <= moments[places[0]]
    assert moments[places[-1]] < 3.0 <= moments[places[-1] + 1]


def test_each_end_is_counted_once_and_only_within_the_time() -> None:
    found = counted([(200, 0.01), (200, 0.05), (200, 0.2), (503, 0.002), (-1, 0.3), (200, 0.01)])
    assert (found.sent, found.in_time, found.late, found.abandoned) == (4, 1, 2, 1)
    assert found.refused == {"503": 1}
    assert (found.sent_per_s, found.in_time_per_s) == (1.0, 0.25)
    assert (found.success_p50_ms, found.success_p99_ms) == (50.0, 200.0)
    assert (found.refusal_p50_ms, found.refusal_p99_ms) == (2.0, 2.0)
    assert found.fault == ""


def test_every_end_has_its_own_count() -> None:
    found = counted([(200, 9), (503, 0.001), (429, 0.003), (ABANDONED, 0.3), (BROKEN, 0.1), (1, 9)])
    assert found.sent == found.in_time + found.late + found.broken + sum(found.refused.values())
    assert (found.in_time, found.late, found.broken) == (0, 1, 1)
    assert found.refused == {"429": 1, "503": 1}
    assert found.success_p50_ms is None
    assert found.refusal_p50_ms == 1.0


def test_an_answer_just_at_the_deadline_is_in_time() -> None:
    log = Log(1)
    log.begin(0, 0.0, 0.0)
    log.end(0, 0.0, 200, 0.5)
    plan = Plan(rate_per_s=1.0, seconds=1.0, deadline_s=0.5, seed=1, warm_up_s=0.0)
    assert open_loop.count(plan, [0.0], log).in_time == 1


def test_a_late_generator_has_measured_nothing() -> None:
    fine = [(200, 0.05)] * len(MOMENTS)
    assert counted(fine, lag_s=0.009).fault == ""
    found = counted(fine, lag_s=0.011)
    assert found.fault == "the load generator was late itself: 11.0 ms, of 10.0 at most"
    assert found.lag_p99_ms == found.lag_max_ms == 11.0


def test_what_cannot_be_read_or_was_never_planned_is_a_fault() -> None:
    fine = [(200, 0.05)] * len(MOMENTS)
    assert counted(fine, unreadable="no HTTP/1 answer").fault == "no HTTP/1 answer"
    assert open_loop.count(PLAN, [], Log(0)).fault == "nothing was sent"
