"""What a case is measured with, and that its plug-ins' functions say what its answers claim."""

import pytest

from benchmarks.cases import arrays, small, uploads
from benchmarks.cases.bare import Bare
from benchmarks.cases.comparison import Comparison, Part
from benchmarks.rounds import Settings

CASES = [small.CASE, arrays.CASE, uploads.CASE]


def test_the_command_line_prevails_and_a_part_may_take_longer() -> None:
    part = Part(small.ONE_STAGE, clients=(1, 16), times=2)
    assert part.settings(Settings(5, 2)) == Settings(5, 4, (1, 16))
    assert part.settings(Settings(1, 1, (64,))) == Settings(1, 2, (64,))


def test_a_server_takes_part_where_there_is_an_exchange_for_it() -> None:
    assert arrays.CASE.takes("mosec-numbin")
    assert not small.CASE.takes("mosec-numbin")
    assert all(case.takes("millstream") for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_floors_are_set_for_what_is_measured(case: Comparison) -> None:
    for part in case.parts:
        assert set(part.floors) <= set(part.clients)
        for floors in part.floors.values():
            assert floors.keys() <= part.workload.exchanges.keys()


def test_the_arrays_are_as_large_as_they_are_called() -> None:
    small_array, large_array = (part.workload for part in arrays.CASE.parts)
    assert small_array.exchanges["millstream"].answer == '{"sum":301056.0}'
    # 2 x 3 x 707 x 707: a float32 sum still holds it exactly.
    assert large_array.exchanges["millstream"].answer == '{"sum":2999094.0}'


def test_the_bare_functions_are_measured_in_batches() -> None:
    bare = Bare("benchmarks.plugins.arrays.bare", "8", max_batch_size=32)
    found = bare.load(clients=64, seconds=0)
    assert found.requests == 32
    assert found.requests_per_s > 0
    assert found.p50_ms > 0
