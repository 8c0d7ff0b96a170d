"""What it costs to see: shares of rates, and whose they are."""

import pytest

from benchmarks import pairs
from benchmarks.cases import price
from benchmarks.load import Measurement
from benchmarks.pairs import Pairs, Sample

FLOORS = {price.USUAL: 0.85, price.TRACED: 0.98}


def sample(rate: float, fault: str = "") -> Sample:
    return Sample(Measurement(100, rate, 1.0, 2.0, fault), 100 / rate)


def row(usual: Sample, **others: Sample) -> Pairs:
    found = {way: [(usual, other)] for way, other in others.items()}
    return Pairs("tiny JSON", 64, price.USUAL, found)


def test_each_way_to_look_is_compared_with_the_one_that_looks_less() -> None:
    found = row(sample(90), nothing=sample(100), traced=sample(88.2), access=sample(81))
    by_rate, by_processor = price.lines(found, FLOORS)
    assert len(by_rate) == len(by_processor) == len(price.header())
    assert by_rate[:3] == ["tiny JSON", "64", "100 (1.00, 2.00)"]
    shares = ["0.900", "0.980", "0.900"]
    assert [cell.split()[0] for cell in by_rate[-3:]] == shares
    assert [cell.split()[0] for cell in by_processor[-3:]] == shares
    assert by_rate[-2] == "0.980 ≥ 0.98 (0.980, 0.980)"
    assert by_processor[2:4] == ["10000.0", "11111.1"]


def test_a_fault_leaves_no_ratio() -> None:
    bad = sample(90, "refused")
    found = row(bad, nothing=sample(100), traced=sample(80), access=sample(70))
    by_rate, _ = price.lines(found, FLOORS)
    assert by_rate[-3:] == ["–", "–", "–"]
    assert "invalid: refused" in by_rate
    assert price.left(found, price.TRACED, pairs.rate) is None


@pytest.mark.parametrize("part", price.PARTS, ids=lambda part: str(part.workload.title))
def test_its_files_are_there(part: price.Part) -> None:
    workload = part.workload
    assert (workload.folder / (workload.file or f"{workload.pipeline}.toml")).is_file()
    for stage in workload.chain:
        assert (workload.folder / workload.scripts.get(stage, "millstream_plugin.py")).is_file()
