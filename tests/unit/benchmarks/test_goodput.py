"""Goodput: a share of what could be in time, beside its floor, and none for a fault."""

import pytest

from benchmarks import goodput
from benchmarks.goodput import Row
from benchmarks.open_loop import Figures

COLUMNS = {"millstream": "Millstream", "mosec": "MOSEC", "triton-tuned": "Triton, tuned"}


def found(sent: float, in_time: float, refusal_ms: float | None = None) -> Figures:
    return Figures(sent_per_s=sent, in_time_per_s=in_time, refusal_p50_ms=refusal_ms)


def cells(load: float, **figures: Figures) -> list[str]:
    """Those of a row under this load, where the capacity is 1,000 a second."""
    row = Row("1 stage", load, 1000.0, {key.replace("_", "-"): one for key, one in figures.items()})
    [line] = goodput.lines([row], COLUMNS)
    assert len(line) == len(goodput.header(COLUMNS))
    return line


def test_below_the_capacity_all_that_is_sent_could_be_in_time() -> None:
    row = Row("1 stage", 0.5, 1000.0, {"mosec": found(480, 240)})
    assert row.share("mosec") == 0.5
    assert row.point("mosec") == (0.48, 0.24)


def test_above_it_the_capacity_could() -> None:
    row = Row("1 stage", 2.0, 1000.0, {"mosec": found(2000, 900)})
    assert row.share("mosec") == 0.9
    assert row.point("mosec") == (2.0, 0.9)


@pytest.mark.parametrize(
    ("load", "sent", "in_time", "cell"),
    [
        (0.5, 500, 495, "0.990 ≥ 0.99 (–)"),
        (0.9, 900, 890, "0.989 < 0.99 (–)"),
        (1.2, 1200, 970, "0.970 ≥ 0.97 (–)"),
        (5.0, 5000, 969, "0.969 < 0.97 (–)"),
        (5.0, 5000, 969.6, "0.970 ≥ 0.97 (–)"),
    ],
)
def test_the_floor_is_that_of_the_load(load: float, sent: float, in_time: float, cell: str) -> None:
    assert cells(load, millstream=found(sent, in_time))[2] == cell


def test_refusals_have_a_floor_of_their_own() -> None:
    assert cells(2, millstream=found(2000, 990, 1.24))[2] == "0.990 ≥ 0.97 (1.2 < 10)"
    assert cells(2, millstream=found(2000, 990, 10.0))[2] == "0.990 ≥ 0.97 (10.0 ≥ 10)"
    assert cells(2, mosec=found(2000, 0, 0.31))[3] == "0.000 (0.3)"


def test_the_rival_is_to_be_beaten() -> None:
    ahead = cells(2, millstream=found(2000, 980), triton_tuned=found(2000, 890, 60))
    assert ahead[4:] == ["0.890 (60.0)", "1.10 ≥ 1"]
    behind = cells(2, millstream=found(2000, 700), triton_tuned=found(2000, 890))
    assert behind[5] == "0.79 < 1"


def test_faults_and_absences_are_said_in_place_of_figures() -> None:
    fault = Figures(fault="the load generator was late itself")
    line = cells(2, millstream=fault, triton_tuned=found(2000, 890))
    assert line[2:4] == ["invalid: the load generator was late itself", "missing"]
    assert line[5] == "–"


def test_nothing_can_be_compared_with_nothing() -> None:
    assert cells(2, millstream=found(2000, 980), triton_tuned=found(2000, 0))[5] == "–"


def test_the_data_hold_all_figures_and_the_shares_of_sound_ones() -> None:
    row = Row("1 stage", 2.0, 1000.0, {"mosec": found(2000, 900), "triton": Figures(fault="late")})
    data = goodput.as_data(row)
    assert data["shares"] == {"mosec": 0.9}
    assert isinstance(data["figures"], dict)
    assert data["figures"]["triton"]["fault"] == "late"
