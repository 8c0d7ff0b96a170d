"""Tables: every figure in its column, and faults and absences said instead of figures."""

from benchmarks import report
from benchmarks.load import Measurement
from benchmarks.report import Results, Section
from benchmarks.rounds import Row, Settings

FINE = Measurement(requests=4000, requests_per_s=2000.0, p50_ms=0.5, p99_ms=12.34)
SLOW = Measurement(requests=2000, requests_per_s=1000.0, p50_ms=1.0, p99_ms=2.0)
BAD = Measurement(requests=9, requests_per_s=9.0, p50_ms=1.0, p99_ms=2.0, fault="no answer")
TITLES = {"millstream": "Millstream", "mosec": "MOSEC", "triton": "Triton"}


def section(
    measurements: dict[str, list[Measurement]],
    title: str = "Tiny requests",
    floors: dict[str, float] | None = None,
    picture: str = "",
) -> Section:
    row = Row("1 stage", 16, measurements, floors=floors or {})
    return Section(title, f"What {title} are.", TITLES, [row], picture)


def results(*sections: Section, failures: dict[str, str] | None = None) -> Results:
    return Results(
        machine={"cores": 2, "processor": "P", "system": "S", "python": "3.11", "wrk": "4.1.0"},
        settings=Settings(rounds=1, seconds=2),
        titles=TITLES,
        versions={"millstream": "0.1.0", "mosec": "0.9.8"},
        failures=failures or {},
        sections=list(sections),
    )


def test_figures_and_ratios() -> None:
    found = section({"millstream": [FINE], "mosec": [SLOW], "triton": [FINE]})
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
    assert results(found).sound


def test_a_ratio_stands_beside_its_floor() -> None:
    found = section(
        {"millstream": [FINE], "mosec": [SLOW], "triton": [FINE]},
        floors={"mosec": 2.0, "triton": 1.1},
    )
    assert report.lines(found)[0][-2:] == ["2.00 ≥ 2", "1.00 < 1.1"]


def test_a_fault_stands_in_place_of_the_figure() -> None:
    found = section({"millstream": [FINE], "mosec": [BAD], "triton": [FINE]}, floors={"mosec": 2.0})
    assert report.lines(found)[0][3] == "invalid: no answer"
    assert report.lines(found)[0][5] == "–"
    assert not results(found).sound


def test_a_missing_server_is_left_out_and_named() -> None:
    one = section({"millstream": [FINE], "mosec": [SLOW]})
    found = results(one, failures={"triton": "no wheel\nmore of the log"})
    assert report.lines(one)[0][4:] == ["missing", "2.00", "–"]
    assert "Triton is missing: no wheel" in report.provenance(found, one)
    assert found.sound


def test_without_millstream_nothing_is_compared() -> None:
    found = results(section({"mosec": [SLOW]}), failures={"millstream": "it exited"})
    assert not found.sound


def test_a_busy_machine_is_told() -> None:
    one = section({"millstream": [FINE]})
    one.rows[0].busy_percent.extend([0.0, 40.0])
    said = report.provenance(results(one), one)
    assert any("the machine was 20 % busy" in line for line in said)
    one.rows[0].busy_percent[:] = [0.0, 2.0]
    assert not any("rough" in line for line in report.provenance(results(one), one))


def test_markdown_is_a_table_for_each_section_with_its_rule() -> None:
    one = section({"millstream": [FINE], "mosec": [SLOW], "triton": [FINE]}, picture="tiny.svg")
    page = report.markdown(results(one))
    assert "| work | clients | Millstream | MOSEC | Triton | ÷ MOSEC | ÷ Triton |\n| --- |" in page
    assert "## Tiny requests\n\nWhat Tiny requests are.\n" in page
    assert "![Tiny requests: requests a second](tiny.svg)" in page
    assert "Millstream 0.1.0, MOSEC 0.9.8; wrk 4.1.0 on the same 2 cores" in page


def test_a_section_that_was_not_measured_stays_as_it_is() -> None:
    tiny, large = section({"millstream": [FINE]}), section({"millstream": [SLOW]}, title="Uploads")
    page = report.markdown(results(tiny, large))
    again = section({"millstream": [SLOW]})
    changed = report.markdown(results(again), page)
    assert changed == report.markdown(results(again, large))
    assert report.markdown(results(large), report.markdown(results(tiny))) == page


def test_json_holds_every_measurement() -> None:
    one = section({"millstream": [FINE], "mosec": [SLOW], "triton": [BAD]}, floors={"mosec": 2.0})
    measured = {
        "requests": 4000,
        "requests_per_s": 2000.0,
        "p50_ms": 0.5,
        "p99_ms": 12.34,
        "fault": "",
    }
    data = report.as_data(results(one))
    assert isinstance(data["rows"], list)
    [row] = data["rows"]
    assert row.pop("measurements")["millstream"] == [measured]
    assert row == {
        "section": "Tiny requests",
        "workload": "1 stage",
        "clients": 16,
        "ratios": {"mosec": 2.0, "triton": None},
        "floors": {"mosec": 2.0},
    }
