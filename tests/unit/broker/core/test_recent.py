"""Samples, spreads, and the history of a pipeline, with numbers for time."""

import pytest

from broker.core.recent import MOST_SAMPLES, POINTS, SLICE_STEPS, SLICES, Recent, Samples, Totals
from broker.wire.errors import ErrorCode


def test_few_samples_are_all_kept_and_many_evenly_thinned() -> None:
    samples = Samples()
    for number in range(10):
        samples.add(1, float(number))
    assert [each.values[0] for each in samples.take()] == [float(n) for n in range(10)]
    assert samples.take() == []

    for number in range(100_000):
        samples.add(1, float(number))
    kept = [each.values[0] for each in samples.take()]
    assert MOST_SAMPLES / 2 <= len(kept) < MOST_SAMPLES
    middle = sorted(kept)[len(kept) // 2]
    assert middle == pytest.approx(50_000, rel=0.05)


def test_a_point_has_rates_and_quantiles_of_its_second() -> None:
    recent = Recent(2)
    for latency_ms in range(1, 101):
        recent.answered(1, latency_ms / 1e3)
    totals = Totals(answered=100, failed=5, withdrawn=1, refused=7, items=4)
    recent.fold(totals, [3, 1], [104, 100], 2.0)
    (point,) = recent.points
    assert (point.came, point.answered, point.failed, point.refused) == (55.0, 50.0, 2.5, 3.5)
    assert (point.p50_ms, point.p95_ms, point.p99_ms) == (50.0, 95.0, 99.0)
    assert point.queued == [3, 1]
    assert [stage.in_per_s for stage in recent.stages] == [55.0, 52.0]
    assert [stage.out_per_s for stage in recent.stages] == [52.0, 50.0]

    recent.fold(totals, [0, 0], [104, 100], 1.0)
    assert recent.points[-1].p50_ms is None
    assert recent.points[-1].answered == 0.0


def test_a_batch_counts_for_all_that_were_in_it() -> None:
    recent = Recent(1)
    recent.answered(90, 0.010)
    recent.answered(10, 0.200)
    recent.fold(Totals(answered=100), [0], [100], 1.0)
    assert recent.points[-1].p50_ms == 10.0
    assert recent.points[-1].p95_ms == 200.0


def test_what_is_forgotten_makes_no_rate_negative() -> None:
    recent = Recent(1)
    recent.fold(Totals(answered=100), [0], [100], 1.0)
    recent.fold(Totals(answered=20), [0], [100], 1.0)
    assert recent.points[-1].answered == 0.0


def test_distributions_are_of_the_last_minute() -> None:
    recent = Recent(1)
    stage = recent.stages[0]
    stage.batch(4, 0.001, 0.5)
    done = Totals()
    recent.fold(done, [0], [0], 1.0)
    assert stage.late_sizes() == {4: 1}
    assert stage.run_s.quantiles() == pytest.approx([0.5] * 3, rel=0.03)
    for _ in range(SLICE_STEPS * SLICES):
        recent.fold(done, [0], [0], 1.0)
    assert stage.late_sizes() == {}
    assert stage.run_s.quantiles() is None
    assert stage.sizes == {4: 1}


def test_the_history_is_bounded_and_errors_have_names_that_exist() -> None:
    recent = Recent(1)
    for _ in range(POINTS + 10):
        recent.fold(Totals(), [0], [0], 1.0)
    assert len(recent.points) == POINTS
    assert recent.points[-1].number == POINTS + 9
    recent.failed(ErrorCode.REJECTED)
    recent.failed(987_654)
    assert recent.errors == {ErrorCode.REJECTED: 1, ErrorCode.WORKER_ERROR: 1}
