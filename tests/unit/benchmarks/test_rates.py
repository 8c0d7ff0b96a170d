"""Tables of rates: every figure in its column, and faults and absences said instead of figures."""

from benchmarks import rates
from benchmarks.load import Measurement
from benchmarks.rounds import Row

FINE = Measurement(requests=4000, requests_per_s=2000.0, p50_ms=0.5, p99_ms=12.34)
SLOW = Measurement(requests=2000, requests_per_s=1000.0, p50_ms=1.0, p99_ms=2.0)
BAD = Measurement(requests=9, requests_per_s=9.0, p50_ms=1.0, p99_ms=2.0, fault="no answer")
TITLES = {"millstream": "Millstream", "mosec": "MOSEC", "triton": "Triton"}


def row(measurements: dict[str, list[Measurement]], floors: dict[str, float] | None = None) -> Row:
    return Row("1 stage", 16, measurements, floors=floors or {})


def cells(measurements: dict[str, list[Measurement]], **floors: float) -> list[str]:
    """Those of the one row that was measured so."""
    [found] = rates.lines([row(measurements, floors)], TITLES)
    return found


def test_figures_and_ratios() -> None:
    assert rates.header(TITLES)[-2:] == ["÷ MOSEC", "÷ Triton"]
    assert cells({"millstream": [FINE], "mosec": [SLOW], "triton": [FINE]}) == [
        "1 stage",
        "16",
        "2,000 (0.50, 12.3)",
        "1,000 (1.00, 2.00)",
        "2,000 (0.50, 12.3)",
        "2.00",
        "1.00",
    ]


def test_a_ratio_stands_beside_its_floor() -> None:
    measured = {"millstream": [FINE], "mosec": [SLOW], "triton": [FINE]}
    assert cells(measured, mosec=2.0, triton=1.1)[-2:] == ["2.00 ≥ 2", "1.00 < 1.1"]


def test_a_fault_stands_in_place_of_the_figure() -> None:
    found = cells({"millstream": [FINE], "mosec": [BAD], "triton": [FINE]}, mosec=2.0)
    assert found[3] == "invalid: no answer"
    assert found[5] == "–"


def test_a_missing_server_has_no_figure() -> None:
    assert cells({"millstream": [FINE], "mosec": [SLOW]})[4:] == ["missing", "2.00", "–"]


def test_the_data_hold_every_measurement() -> None:
    one = row({"millstream": [FINE], "mosec": [SLOW], "triton": [BAD]}, {"mosec": 2.0})
    data = rates.as_data(one, TITLES)
    measurements = data.pop("measurements")
    assert isinstance(measurements, dict)
    assert measurements["millstream"] == [
        {"requests": 4000, "requests_per_s": 2000.0, "p50_ms": 0.5, "p99_ms": 12.34, "fault": ""}
    ]
    assert data == {
        "workload": "1 stage",
        "clients": 16,
        "ratios": {"mosec": 2.0, "triton": None},
        "floors": {"mosec": 2.0},
    }
