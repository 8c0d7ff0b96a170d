"""Draws grouped bars as SVG: a panel for each workload, a group for each number of clients.

Pure, and knows nothing of benchmarks but their rows. Needs no plotting library.
"""

from collections.abc import Mapping, Sequence

from benchmarks.rounds import Row
from millstream.bench import svg
from millstream.bench.svg import HEADER_HEIGHT, MARGIN

PANEL_HEIGHT = 220
PANEL_GAP = 70
BAR_WIDTH = 34
BAR_GAP = 4
GROUP_GAP = 36


def bars(rows: Sequence[Row], servers: Mapping[str, str]) -> str:
    """The median rates of all rows without fault, each panel with a scale of its own.

    `servers` gives the bars of a group their order and the legend its titles.
    """
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(row.workload, []).append(row)
    groups = max((len(panel) for panel in panels.values()), default=0)
    titles = list(servers.values())
    width = 2 * MARGIN + max(groups * _group_width(servers), svg.legend_width(titles))
    height = HEADER_HEIGHT + len(panels) * (PANEL_HEIGHT + PANEL_GAP)
    drawn = []
    for place, (title, panel) in enumerate(panels.items()):
        top = HEADER_HEIGHT + place * (PANEL_HEIGHT + PANEL_GAP)
        drawn += _panel(title, panel, servers, top=top)
    return svg.document(width, height, titles, drawn)


def _group_width(servers: Mapping[str, str]) -> int:
    return len(servers) * (BAR_WIDTH + BAR_GAP) + GROUP_GAP


def _panel(title: str, rows: Sequence[Row], servers: Mapping[str, str], *, top: int) -> list[str]:
    rates = [_rates(row, servers) for row in rows]
    highest = max((rate for group in rates for rate in group.values()), default=0.0)
    bottom = top + PANEL_HEIGHT
    drawn = [svg.text(MARGIN, top + 16, f"{title}, requests a second", weight="bold")]
    for place, (row, group) in enumerate(zip(rows, rates, strict=True)):
        left = MARGIN + place * _group_width(servers)
        for number, server in enumerate(servers):
            if server in group:
                x = left + number * (BAR_WIDTH + BAR_GAP)
                # Room for the title above the highest bar.
                bar = (PANEL_HEIGHT - 50) * group[server] / highest
                drawn += _bar(x, bottom, bar, group[server], svg.colour(number))
        middle = left + (_group_width(servers) - GROUP_GAP) / 2
        clients = f"{row.clients} client{'s' if row.clients > 1 else ''}"
        drawn.append(svg.text(middle, bottom + 18, clients, anchor="middle"))
    return drawn


def _rates(row: Row, servers: Mapping[str, str]) -> dict[str, float]:
    return {
        server: row.median(server).requests_per_s
        for server in servers
        if server in row.measurements and not row.fault(server)
    }


def _bar(x: float, bottom: float, height: float, rate: float, colour: str) -> list[str]:
    middle = x + BAR_WIDTH / 2
    return [
        f'<rect x="{x:g}" y="{bottom - height:.1f}" width="{BAR_WIDTH}" height="{height:.1f}" '
        f'fill="{colour}"/>',
        svg.text(middle, bottom - height - 4, f"{rate:,.0f}", anchor="middle", size=10),
    ]
