"""What it costs to see: shares of rates, and whose they are."""

import pytest

from benchmarks.cases import price
from benchmarks.load import Measurement
from benchmarks.rounds import Row


def row(**rates: list[float]) -> Row:
    measured = {
        way: [Measurement(requests=1, requests_per_s=rate, p50_ms=1.0, p99_ms=2.0) for rate in each]
        for way, each in rates.items()
    }
    return Row("tiny JSON", 64, measured, floors={price.USUAL: 0.85, price.TRACED: 0.98})


def test_each_way_to_look_is_compared_with_the_one_that_looks_less() -> None:
    found = row(nothing=[100.0, 200.0], usual=[90.0, 180.0], traced=[88.2, 176.4], access=[81, 162])
    (cells,) = price.lines([found])
    assert len(cells) == len(price.header())
    assert cells[:3] == ["tiny JSON", "64", "150 (1.00, 2.00)"]
    assert cells[-3:] == ["0.900 ≥ 0.85", "0.980 ≥ 0.98", "0.900"]


def test_a_fault_leaves_no_ratio() -> None:
    found = row(nothing=[100.0], usual=[90.0], traced=[80.0], access=[70.0])
    found.measurements["usual"] = [Measurement(0, 0.0, 0.0, 0.0, fault="refused")]
    (cells,) = price.lines([found])
    assert cells[-3:] == ["–", "–", "–"]
    assert "invalid: refused" in cells


@pytest.mark.parametrize("part", price.PARTS, ids=lambda part: str(part.workload.title))
def test_its_files_are_there(part: price.Part) -> None:
    workload = part.workload
    assert (workload.folder / (workload.file or f"{workload.pipeline}.toml")).is_file()
    for stage in workload.chain:
        assert (workload.folder / workload.scripts.get(stage, "millstream_plugin.py")).is_file()
