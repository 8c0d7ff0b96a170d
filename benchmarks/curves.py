"""Draws goodput over offered load as SVG: a panel for each workload, a line for each server.

Pure, and knows nothing of benchmarks but their rows. Both axes count in times of the capacity, so
that the grey line, what could be answered in time at best, is the same in every panel.
"""

import math
from collections.abc import Mapping, Sequence

from benchmarks.goodput import Row
from millstream.bench import svg
from millstream.bench.svg import HEADER_HEIGHT, MARGIN

PLOT_WIDTH = 560
PLOT_HEIGHT = 200
TITLE_HEIGHT = 30
AXIS_HEIGHT = 50
PANEL_HEIGHT = TITLE_HEIGHT + PLOT_HEIGHT + AXIS_HEIGHT
# A little more than can be, so that the lines at the top are seen.
HIGHEST = 1.1
RULES = (0.0, 0.25, 0.5, 0.75, 1.0)
LIMIT = "#bbbbbb"

Point = tuple[float, float]


def lines(rows: Sequence[Row], servers: Mapping[str, str]) -> str:
    """All rows without fault. `servers` gives the legend its order and titles."""
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(row.workload, []).append(row)
    titles = list(servers.values())
    width = 2 * MARGIN + max(PLOT_WIDTH, svg.legend_width(titles))
    drawn = []
    for place, (title, panel) in enumerate(panels.items()):
        drawn += _panel(title, panel, servers, top=HEADER_HEIGHT + place * PANEL_HEIGHT)
    return svg.document(width, HEADER_HEIGHT + len(panels) * PANEL_HEIGHT, titles, drawn)


def _panel(title: str, rows: Sequence[Row], servers: Mapping[str, str], *, top: int) -> list[str]:
    highest_load = math.ceil(max(row.load for row in rows))
    bottom = top + TITLE_HEIGHT + PLOT_HEIGHT

    def at(load: float, goodput: float) -> Point:
        x = MARGIN + PLOT_WIDTH * load / highest_load
        return x, bottom - PLOT_HEIGHT * goodput / HIGHEST

    drawn = [svg.text(MARGIN, top + 16, title, weight="bold")]
    for rule in RULES:
        x, y = at(0, rule)
        drawn.append(svg.line([(x, y), at(highest_load, rule)], "#eeeeee", width=1))
        drawn.append(svg.text(x - 4, y + 4, f"{rule:g}", anchor="end", size=10))
    drawn.append(svg.line([at(0, 0), at(1, 1), at(highest_load, 1)], LIMIT, width=1.5))
    for load in range(highest_load + 1):
        x, y = at(load, 0)
        drawn.append(svg.text(x, y + 16, str(load), anchor="middle", size=10))
    middle, _ = at(highest_load / 2, 0)
    said = "in time, over what is sent, in times of the capacity; grey: the best there is"
    drawn.append(svg.text(middle, bottom + 34, said, anchor="middle"))
    # The first on top, and those below it wider, so that none hides another of the same figures.
    for place, server in reversed(list(enumerate(servers))):
        points = [at(*row.point(server)) for row in rows if row.is_sound(server)]
        drawn += [svg.line(points, svg.colour(place), width=2.5 + place)] if points else []
        drawn += [svg.dot(point, svg.colour(place), radius=3 + place / 2) for point in points]
    return drawn
