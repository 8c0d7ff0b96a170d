"""The flood: the share of the quiet client beside its floor, and no figure for a fault."""

from benchmarks.cases import flood
from benchmarks.cases.flood import Row
from benchmarks.open_loop import Figures


def test_the_quiet_client_has_a_floor() -> None:
    figures = {
        "a": Figures(sent=20_000, in_time=900, refusal_p50_ms=1.5),
        "b": Figures(sent=100, in_time=95),
    }
    assert flood.lines([Row("1 stage", figures, busy_percent=0.0)]) == [
        ["1 stage", "0.045 (1.5)", "0.950 ≥ 0.95 (–)"]
    ]


def test_a_fault_stands_in_place_of_the_figure() -> None:
    figures = {"a": Figures(fault="late"), "b": Figures(sent=100, in_time=94)}
    [line] = flood.lines([Row("1 stage", figures, busy_percent=0.0)])
    assert line[1:] == ["invalid: late", "0.940 < 0.95 (–)"]


def test_only_one_client_is_greedy() -> None:
    assert flood.LOADS["a"] == 20.0
    assert flood.LOADS[flood.QUIET] == 0.1
    assert flood.CASE.takes("millstream")
    assert not flood.CASE.takes("mosec")
