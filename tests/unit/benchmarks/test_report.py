"""Reports: what was measured now in its place, and what was not as it stood."""

from benchmarks import report
from benchmarks.report import Picture, Results, Section
from benchmarks.rounds import Settings

TITLES = {"millstream": "Millstream", "mosec": "MOSEC", "triton": "Triton"}


def section(
    title: str = "Tiny requests",
    *,
    cell: str = "2,000",
    faults: list[str] | None = None,
    busy_percent: list[float] | None = None,
    picture: Picture | None = None,
) -> Section:
    return Section(
        title=title,
        note=f"What {title} are.",
        servers=tuple(TITLES),
        how="1 rounds of 2 s",
        load="wrk 4.1.0",
        header=["work", "Millstream", "MOSEC"],
        lines=[["1 stage", cell, "1,000"]],
        data=[{"workload": "1 stage"}],
        faults=faults or [],
        busy_percent=busy_percent or [],
        picture=picture,
    )


def results(*sections: Section, failures: dict[str, str] | None = None) -> Results:
    return Results(
        machine={"cores": 2, "processor": "P", "system": "S", "python": "3.11", "wrk": "4.1.0"},
        settings=Settings(rounds=1, seconds=2),
        titles=TITLES,
        versions={"millstream": "0.1.0", "mosec": "0.9.8"},
        failures=failures or {},
        sections=list(sections),
    )


def test_what_was_measured_without_fault_is_sound() -> None:
    assert results(section()).sound
    assert not results().sound
    assert not results(section(), section(faults=["no answer"])).sound


def test_a_missing_server_is_named() -> None:
    found = results(section(), failures={"triton": "no wheel\nmore of the log"})
    assert "Triton is missing: no wheel" in report.provenance(found, section())
    assert found.sound


def test_without_millstream_nothing_is_compared() -> None:
    assert not results(section(), failures={"millstream": "it exited"}).sound


def test_a_busy_machine_is_told() -> None:
    busy, idle = section(busy_percent=[0.0, 40.0]), section(busy_percent=[0.0, 2.0])
    said = report.provenance(results(busy), busy)
    assert any("the machine was 20 % busy" in line for line in said)
    assert not any("rough" in line for line in report.provenance(results(idle), idle))


def test_a_figure_stands_beside_its_floor() -> None:
    assert report.against(2.0, 2.0) == "2.00 ≥ 2"
    assert report.against(0.9899, 0.99, digits=4) == "0.9899 < 0.99"


def test_markdown_is_a_table_for_each_section_with_its_rule() -> None:
    page = report.markdown(results(section(picture=Picture("tiny.svg", "rates", "<svg/>"))))
    assert "| work | Millstream | MOSEC |\n| --- | ---: | ---: |\n| 1 stage | 2,000 |" in page
    assert "## Tiny requests\n\nWhat Tiny requests are.\n" in page
    assert "![Tiny requests: rates](tiny.svg)" in page
    assert "1 rounds of 2 s; Millstream 0.1.0, MOSEC 0.9.8; wrk 4.1.0 on the same 2 cores" in page


def test_a_section_that_was_not_measured_stays_as_it_is() -> None:
    tiny, large = section(), section("Uploads", cell="1")
    page = report.markdown(results(tiny, large))
    again = section(cell="3,000")
    changed = report.markdown(results(again), page)
    assert changed == report.markdown(results(again, large))
    assert report.markdown(results(large), report.markdown(results(tiny))) == page


def test_json_holds_every_row_with_its_section() -> None:
    data = report.as_data(results(section(busy_percent=[3.0]), section("Uploads")))
    assert data["rows"] == [
        {"section": "Tiny requests", "workload": "1 stage"},
        {"section": "Uploads", "workload": "1 stage"},
    ]
    assert data["busy_percent"] == 3.0
    assert data["settings"] == {"rounds": 1, "seconds": 2, "clients": (), "seeds": ()}
