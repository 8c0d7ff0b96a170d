"""What is drawn for overload: the same for a seed, within its bounds, and told to every server."""

import string

import pytest

from benchmarks.cases import draws
from benchmarks.cases.draws import Draw


def test_a_seed_repeats_its_draw() -> None:
    assert draws.draw(1) == draws.draw(1) == Draw(a_ms=4.4, c_ms=0.86, deadline_ms=132)
    assert draws.draw(1) != draws.draw(2)


def test_draws_lie_within_their_bounds_and_fill_them() -> None:
    found = [draws.draw(seed) for seed in range(500)]
    times = [one.deadline_ms / one.largest_ms for one in found]
    for values, (least, most) in (
        ([one.a_ms for one in found], draws.A_MS),
        ([one.c_ms for one in found], draws.C_MS),
        (times, draws.DEADLINE),
    ):
        # Deadlines are whole milliseconds, a tenth of the smallest largest batch at most.
        assert least - 0.1 <= min(values) < least + (most - least) / 20
        assert most - (most - least) / 20 < max(values) <= most + 0.1


def test_the_capacity_is_that_of_full_batches() -> None:
    times = Draw(a_ms=10, c_ms=0.5, deadline_ms=100)
    assert times.largest_ms == 18
    assert times.capacity_per_s == pytest.approx(888.9, abs=0.1)
    assert times.queue_timeout_ms == 64


@pytest.mark.parametrize(("pipeline", "answer"), [("one", 2), ("three", 4)])
def test_every_server_serves_the_same_chain_in_the_same_time(pipeline: str, answer: int) -> None:
    found = draws.workload(Draw(a_ms=10, c_ms=0.5, deadline_ms=100), pipeline)
    assert found.variables["BENCHMARK_A_MS"] == "10"
    assert all(str(answer) in exchange.answer for exchange in found.exchanges.values())
    assert found.exchanges["millstream"].headers["X-Timeout-Ms"] == "100"
    tuned = (draws.FOLDER / "triton-tuned_infer.pbtxt").read_text()
    said = string.Template(tuned).substitute(found.variables, name="infer")
    assert "default_timeout_microseconds: 64000\n" in said
