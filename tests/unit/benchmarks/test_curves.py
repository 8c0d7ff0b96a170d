"""The picture of goodput: a line through all sound figures, to scale, within its frame."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks import curves
from benchmarks.curves import HIGHEST, PLOT_HEIGHT, PLOT_WIDTH
from benchmarks.goodput import Row
from benchmarks.open_loop import Figures
from millstream.bench import svg
from millstream.bench.svg import MARGIN

SERVERS = {"millstream": "Millstream", "triton": "Triton <tuned>"}
SVG = "{http://www.w3.org/2000/svg}"


def row(load: float, goodput: float, *, fault: str = "", workload: str = "1 stage") -> Row:
    """One in which the first server answered so much in time, in times of the capacity."""
    found = Figures(sent_per_s=load * 1000, in_time_per_s=goodput * 1000, fault=fault)
    return Row(workload, load, 1000.0, {"millstream": found})


def points(picture: ET.Element, colour: str) -> list[list[tuple[float, float]]]:
    """Of each line of that colour."""
    return [
        [(float(x), float(y)) for x, y in (at.split(",") for at in one.attrib["points"].split())]
        for one in picture.iter(f"{SVG}polyline")
        if one.get("stroke") == colour
    ]


def test_lines_are_to_scale_against_the_best_that_can_be() -> None:
    rows = [row(0.5, 0.5), row(1.0, 1.0), row(5.0, 0.5)]
    picture = ET.fromstring(curves.lines(rows, SERVERS))
    [[origin, corner, right]] = points(picture, curves.LIMIT)
    [[half, full, over]] = points(picture, svg.COLOURS[0])
    assert full == corner
    assert half == pytest.approx(((origin[0] + corner[0]) / 2, (origin[1] + corner[1]) / 2))
    assert over == pytest.approx((right[0], half[1]))
    assert right[0] - origin[0] == PLOT_WIDTH
    assert origin[1] - corner[1] == pytest.approx(PLOT_HEIGHT / HIGHEST, abs=0.1)
    said = [one.text for one in picture.iter(f"{SVG}text")]
    assert {"1 stage", "Triton <tuned>", "0", "5"} <= set(said)


def test_a_faulty_or_missing_server_has_no_point() -> None:
    rows = [row(0.5, 0.5), row(1.0, 1.0, fault="late"), row(2.0, 1.0)]
    picture = ET.fromstring(curves.lines(rows, SERVERS))
    [line] = points(picture, svg.COLOURS[0])
    assert len(line) == 2
    assert points(picture, svg.COLOURS[1]) == []


def test_every_workload_has_a_panel_within_the_picture() -> None:
    rows = [row(0.5, 0.5), row(5.0, 1.0), row(5.0, 1.08, workload="3 stages")]
    picture = ET.fromstring(curves.lines(rows, SERVERS))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    assert len(points(picture, svg.COLOURS[0])) == 2
    for line in points(picture, svg.COLOURS[0]) + points(picture, curves.LIMIT):
        for x, y in line:
            assert MARGIN <= x <= width - MARGIN
            assert MARGIN <= y <= height


def test_nothing_measured_is_an_empty_picture() -> None:
    assert ET.fromstring(curves.lines([], SERVERS)).tag == f"{SVG}svg"
