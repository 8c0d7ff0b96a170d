"""The verdict on the broker's memory."""

from benchmarks.cases import memory
from benchmarks.cases.memory import Sample


def samples(*broker_mib: float) -> list[Sample]:
    return [Sample(1000 * n, mib, 50.0) for n, mib in enumerate(broker_mib)]


def test_small_and_flat_is_fine() -> None:
    # What comes with the first load is no leak.
    assert memory.verdict(samples(30.0, 45.0, 46.0, 45.5)) == ""


def test_a_peak_over_the_limit_is_not() -> None:
    assert memory.verdict(samples(30.0, 81.0, 60.0)) == "the broker took 81.0 MiB; it may take 80"


def test_steady_growth_is_not() -> None:
    said = memory.verdict(samples(30.0, 40.0, 42.0, 44.0))
    assert said == "the broker grew by 4.0 MiB after the first tenth"
