"""The picture: well-formed, a bar for each figure, to scale, and none for a fault."""

from xml.etree import ElementTree as ET

from benchmarks import plot
from benchmarks.load import Measurement
from benchmarks.rounds import Row
from millstream.bench import svg

SERVERS = {"millstream": "Millstream", "mosec": "MOSEC <numbin>"}
SVG = "{http://www.w3.org/2000/svg}"


def measured(rate: float, fault: str = "") -> list[Measurement]:
    return [Measurement(requests=9, requests_per_s=rate, p50_ms=1.0, p99_ms=2.0, fault=fault)]


def heights(picture: ET.Element, colour: str) -> list[float]:
    """Of the bars of that colour, without its square in the legend."""
    rectangles = [one for one in picture.iter(f"{SVG}rect") if one.get("fill") == colour]
    return [float(one.attrib["height"]) for one in rectangles[1:]]


def test_bars_are_to_the_scale_of_their_panel() -> None:
    rows = [
        Row("602 KB", 1, {"millstream": measured(1000), "mosec": measured(250)}),
        Row("602 KB", 16, {"millstream": measured(500), "mosec": measured(500)}),
        Row("6 MB", 1, {"millstream": measured(10), "mosec": measured(5)}),
    ]
    picture = ET.fromstring(plot.bars(rows, SERVERS))
    full, quarter, half = 170.0, 42.5, 85.0
    assert heights(picture, svg.COLOURS[0]) == [full, half, full]
    assert heights(picture, svg.COLOURS[1]) == [quarter, half, half]
    said = [one.text for one in picture.iter(f"{SVG}text")]
    assert {"MOSEC <numbin>", "1,000", "1 client", "16 clients"} <= set(said)


def test_a_faulty_or_missing_server_has_no_bar() -> None:
    rows = [Row("602 KB", 1, {"millstream": measured(1000, "no answer")})]
    picture = ET.fromstring(plot.bars(rows, SERVERS))
    assert heights(picture, svg.COLOURS[0]) == heights(picture, svg.COLOURS[1]) == []


def test_everything_lies_within_the_picture() -> None:
    rows = [Row("6 MB", 1, {"millstream": measured(10), "mosec": measured(5)})]
    picture = ET.fromstring(plot.bars(rows, SERVERS))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    for one in picture.iter(f"{SVG}rect"):
        assert float(one.get("x", "0")) + float(one.attrib["width"]) <= width
        assert float(one.get("y", "0")) + float(one.attrib["height"]) <= height


def test_nothing_measured_is_an_empty_picture() -> None:
    assert ET.fromstring(plot.bars([], SERVERS)).tag == f"{SVG}svg"
