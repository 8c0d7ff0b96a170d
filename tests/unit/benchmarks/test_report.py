"""Tables: every figure in its column, and faults and absences said instead of figures."""

from benchmarks import report
from benchmarks.load import Measurement
from benchmarks.report import Results
from benchmarks.rounds import Row, Settings

FINE = Measurement(requests=4000, requests_per_s=2000.0, p50_ms=0.5, p99_ms=12.34)
SLOW = Measurement(requests=2000, requests_per_s=1000.0, p50_ms=1.0, p99_ms=2.0)
BAD = Measurement(requests=9, requests_per_s=9.0, p50_ms=1.0, p99_ms=2.0, fault="no answer")


def results(
    measurements: dict[str, list[Measurement]], failures: dict[str, str] | None = None
) -> Results:
    return Results(
        machine={"cores": 2, "processor": "P", "system": "S", "python": "3.11", "wrk": "4.1.0"},
        settings=Settings(rounds=1, seconds=2, clients=(16,)),
        titles={"millstream": "Millstream", "mosec": "MOSEC", "triton": "Triton"},
        versions={"millstream": "0.1.0", "mosec": "0.9.8"},
        failures=failures or {},
        rows=[Row("1 stage", 16, measurements)],
    )


def test_figures_and_ratios() -> None:
    found = results({"millstream": [FINE], "mosec": [SLOW], "triton": [FINE]})
    assert report.header(found)[-2:] == ["÷ MOSEC", "÷ Triton"]
    assert report.lines(found) == [
        [
            "1 stage",
            "16",
            "2,000 (0.50, 12.3)",
            "1,000 (1.00, 2.00)",
            "2,000 (0.50, 12.3)",
            "2.00",
            "1.00",
        ]
    ]
    assert found.sound


def test_a_fault_stands_in_place_of_the_figure() -> None:
    found = results({"millstream": [FINE], "mosec": [BAD], "triton": [FINE]})
    assert report.lines(found)[0][3] == "invalid: no answer"
    assert report.lines(found)[0][5] == "–"
    assert not found.sound


def test_a_missing_server_is_left_out_and_named() -> None:
    found = results(
        {"millstream": [FINE], "mosec": [SLOW]}, failures={"triton": "no wheel\nmore of the log"}
    )
    assert report.lines(found)[0][4:] == ["missing", "2.00", "–"]
    assert "Triton is missing: no wheel" in report.summary(found)
    assert found.sound


def test_without_millstream_nothing_is_compared() -> None:
    assert not results({"mosec": [SLOW]}, failures={"millstream": "it exited"}).sound


def test_a_busy_machine_is_told() -> None:
    found = results({"millstream": [FINE]})
    found.rows[0].busy_percent.extend([0.0, 40.0])
    assert any("the machine was 20 % busy" in said for said in report.summary(found))
    found.rows[0].busy_percent[:] = [0.0, 2.0]
    assert not any("rough" in said for said in report.summary(found))


def test_markdown_is_one_table_with_its_rule() -> None:
    page = report.markdown(results({"millstream": [FINE], "mosec": [SLOW], "triton": [FINE]}))
    assert "| work | clients | Millstream | MOSEC | Triton | ÷ MOSEC | ÷ Triton |\n| --- |" in page
    assert "wrk 4.1.0 on the same 2 cores" in page


def test_json_holds_every_measurement() -> None:
    data = report.as_data(results({"millstream": [FINE], "mosec": [SLOW], "triton": [BAD]}))
    assert data["rows"] == [
        {
            "workload": "1 stage",
            "clients": 16,
            "ratios": {"mosec": 2.0, "triton": None},
            "measurements": {
                "millstream": [
                    {
                        "requests": 4000,
                        "requests_per_s": 2000.0,
                        "p50_ms": 0.5,
                        "p99_ms": 12.34,
                        "fault": "",
                    }
                ],
                "mosec": [
                    {
                        "requests": 2000,
                        "requests_per_s": 1000.0,
                        "p50_ms": 1.0,
                        "p99_ms": 2.0,
                        "fault": "",
                    }
                ],
                "triton": [
                    {
                        "requests": 9,
                        "requests_per_s": 9.0,
                        "p50_ms": 1.0,
                        "p99_ms": 2.0,
                        "fault": "no answer",
                    }
                ],
            },
        }
    ]
