"""Comparing round by round: ratios within a round, and no figure out of a faulty cell."""

from benchmarks import rounds
from benchmarks.load import Measurement
from benchmarks.rounds import Row


def measured(rate: float, fault: str = "") -> Measurement:
    return Measurement(
        requests=int(rate), requests_per_s=rate, p50_ms=rate / 100, p99_ms=1.0, fault=fault
    )


def row(**rates: list[Measurement]) -> Row:
    return Row("1 stage", 16, dict(rates))


def test_the_ratio_is_the_median_of_the_rounds_not_the_ratio_of_the_medians() -> None:
    # The machine was half as fast in the second round, for both.
    assert rounds.median_ratio([200.0, 100.0, 330.0], [100.0, 50.0, 100.0]) == 2.0


def test_a_row_compares_servers_of_the_same_round() -> None:
    one = row(a=[measured(100), measured(300)], b=[measured(50), measured(100)])
    assert one.ratio("a", "b") == 2.5


def test_medians_are_taken_for_each_figure() -> None:
    one = row(a=[measured(100), measured(300), measured(200)]).median("a")
    assert (one.requests, one.requests_per_s, one.p50_ms) == (600, 200, 2.0)


def test_one_faulty_round_makes_the_cell_invalid() -> None:
    one = row(a=[measured(100), measured(90, "17 answers that are not 2xx")], b=[measured(50)] * 2)
    assert one.fault("a") == "17 answers that are not 2xx"
    assert one.fault("b") == ""
    assert one.ratio("a", "b") is None


def test_a_missing_server_has_no_ratio() -> None:
    assert row(a=[measured(100)]).ratio("a", "b") is None


def test_each_server_is_first_in_some_round() -> None:
    orders = [rounds.rotated(["a", "b", "c"], turn) for turn in range(4)]
    assert orders == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]
