"""Draws runs as SVG: times by percentile, and goodput and times by rate. Pure.

The axis of percentiles is HdrHistogram's: each step to the right is a tenth of the requests that
are slower, so that the tail has as much room as the rest.
"""

import math
from collections.abc import Sequence
from html import escape

from millstream.bench import svg
from millstream.bench.result import Result
from millstream.bench.svg import HEADER_HEIGHT, MARGIN

WIDTH = 640
HEIGHT = 240
LEFT = MARGIN + 30
AXIS_HEIGHT = 60
TITLE_HEIGHT = 30
PANEL_HEIGHT = TITLE_HEIGHT + HEIGHT + AXIS_HEIGHT
RULES = 5
SLO = "#bbbbbb"

Point = tuple[float, float]
Lines = list[tuple[str, list[Point | None]]]
Ticks = Sequence[tuple[float, str]]


def picture(results: Sequence[Result], before: Sequence[Result] = ()) -> str:
    """All that can be drawn of these runs, and of earlier ones beside them."""
    groups = [("this run", results)] + ([("before", before)] if before else [])
    panels: list[tuple[str, Lines, float | None]] = []
    if len(results) > 1:
        rates = [(title, [_rate_point(each, "goodput") for each in runs]) for title, runs in groups]
        panels.append(("goodput a second by what is sent a second", rates, None))
        times = [(title, [_rate_point(each, "p99") for each in runs]) for title, runs in groups]
        panels.append(("99th percentile in ms by what is sent a second", times, _slo(results)))
    else:
        curves = [(title, _curve(runs[-1])) for title, runs in groups]
        panels.append(("ms by percentile", curves, _slo(results)))
    titles = [title for title, _ in groups]
    drawn: list[str] = []
    for place, (title, lines, limit) in enumerate(panels):
        top = HEADER_HEIGHT + place * PANEL_HEIGHT
        by_percentile = len(results) == 1
        drawn += _panel(title, lines, top=top, limit=limit, by_percentile=by_percentile)
    height = HEADER_HEIGHT + len(panels) * PANEL_HEIGHT
    return svg.document(LEFT + WIDTH + MARGIN, height, titles, drawn)


def page(svg_text: str, title: str, text: str) -> str:
    """The picture in a page of HTML, with the figures as text below it."""
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<h1>{escape(title)}</h1>\n{svg_text}<pre>{escape(text)}</pre>\n</html>\n"
    )


def _slo(results: Sequence[Result]) -> float | None:
    return results[0].figures.slo_ms


def _rate_point(result: Result, what: str) -> Point | None:
    figures = result.figures
    x = result.rate_per_s or float(result.clients)
    y = figures.goodput_per_s if what == "goodput" else figures.percentiles_ms.get("p99")
    return None if y is None else (x, y)


def nines(percent: float) -> float:
    """Where a percentile stands on the axis: 0 for 0, 1 for 90, 2 for 99, 3 for 99.9."""
    return -math.log10(max(1.0 - percent / 100.0, 1e-6))


def _curve(result: Result) -> list[Point | None]:
    curve = [point for point in result.curve_ms if point[0] < 100.0]
    points: list[Point | None] = [(nines(percent), ms) for percent, ms in curve]
    if curve and result.curve_ms[-1][0] == 100.0:  # drawn where the last one of all stands
        points.append((nines(curve[-1][0]) + 0.3, result.curve_ms[-1][1]))
    return points


def _panel(
    title: str,
    lines: Lines,
    *,
    top: float,
    limit: float | None,
    by_percentile: bool,
) -> list[str]:
    points = [point for _, line in lines for point in line if point is not None]
    most_x = max((x for x, _ in points), default=1.0) or 1.0
    most_y = max([y for _, y in points] + ([limit] if limit else []), default=1.0) or 1.0
    step = _round_step(most_y / RULES)
    most_y = step * math.ceil(most_y / step)
    bottom = top + TITLE_HEIGHT + HEIGHT

    def at(x: float, y: float) -> Point:
        return LEFT + WIDTH * x / most_x, bottom - HEIGHT * y / most_y

    drawn = [svg.text(LEFT, top + 16, title, weight="bold")]
    for rule in range(round(most_y / step) + 1):
        x, y = at(0, rule * step)
        drawn.append(svg.line([(x, y), at(most_x, rule * step)], "#eeeeee", width=1))
        drawn.append(svg.text(x - 4, y + 4, f"{rule * step:g}", anchor="end", size=10))
    for tick, label in _ticks(most_x, by_percentile=by_percentile):
        x, y = at(tick, 0)
        drawn.append(svg.text(x, y + 16, label, anchor="middle", size=10))
    said = "percentile of the requests" if by_percentile else "sent a second"
    middle, _ = at(most_x / 2, 0)
    drawn.append(svg.text(middle, bottom + 34, said, anchor="middle"))
    if limit is not None:
        drawn.append(svg.line([at(0, limit), at(most_x, limit)], SLO, width=1.5))
        x, y = at(most_x, limit)
        drawn.append(svg.text(x, y - 4, "SLO", anchor="end", size=10))
    for place, (_, line) in reversed(list(enumerate(lines))):
        placed = [at(*point) for point in line if point is not None]
        colour = svg.colour(place)
        drawn += [svg.line(placed, colour, width=2)] if placed else []
        drawn += [svg.dot(point, colour, radius=3) for point in placed]
    return drawn


def _ticks(most_x: float, *, by_percentile: bool) -> Ticks:
    if by_percentile:
        percents = (0, 50, 90, 99, 99.9, 99.99, 99.999)
        return [(nines(each), f"{each:g} %") for each in percents if nines(each) <= most_x]
    step = _round_step(most_x / 6)
    return [(place * step, f"{place * step:g}") for place in range(int(most_x / step) + 1)]


def _round_step(about: float) -> float:
    """1, 2 or 5 times a power of ten, as much as `about` or a little more."""
    power = 10.0 ** math.floor(math.log10(max(about, 1e-9)))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= about * 0.999)
