"""Swaps of versions: figures beside their bound, and no figure for a fault."""

from benchmarks.cases import swaps
from benchmarks.cases.swaps import MIB, Series, Swap
from benchmarks.open_loop import Figures


def test_what_swaps_in_a_row_have_shown() -> None:
    series = Series(20, 40_000, 0, "", 300 * MIB, 301 * MIB, busy_percent=0.0)
    (line,) = swaps.lines([series], [])
    assert line[:5] == ["20 swaps, 64 clients", "40,000", "0", "0", "300, then 301"]


def test_a_swap_is_held_against_the_time_before() -> None:
    before = Figures(sent=1000, in_time=1000, success_p99_ms=20.0)
    during = Figures(sent=1000, in_time=999, success_p99_ms=30.0)
    (line,) = swaps.lines([], [Swap("sleep 1.0", before, during, 2.1, busy_percent=0.0)])
    assert line[0] == "889/s, its setup sleeps for a second"
    assert line[1:3] == ["2,000", "1"]
    assert line[5:] == ["20.0", "30.0", "1.50 ≤ 2"]


def test_a_fault_stands_in_place_of_the_figures() -> None:
    bad = Swap("spin 1.0", Figures(fault="late"), Figures(), 2.1, busy_percent=0.0)
    (line,) = swaps.lines([], [bad])
    assert line[1] == "invalid: late"
    assert len(line) == 8
