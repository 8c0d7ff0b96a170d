"""The parts that pictures are made of, as SVG: text, legend, the frame. Pure."""

from collections.abc import Iterable, Sequence
from html import escape

MARGIN = 40
HEADER_HEIGHT = 40
LEGEND_STEP = 150
# Told apart by those who see colours otherwise, too, and on white and on black ground.
COLOURS = ("#0072b2", "#e69f00", "#d55e00", "#009e73", "#999999")


def document(width: float, height: float, titles: Sequence[str], drawn: Iterable[str]) -> str:
    """The whole picture. `titles` are those of the legend above what was drawn."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>\n'
        + "\n".join([*_legend(titles), *drawn])
        + "\n</svg>\n"
    )


def legend_width(titles: Sequence[str]) -> int:
    """What the legend takes, beside the margins."""
    return len(titles) * LEGEND_STEP


def _legend(titles: Sequence[str]) -> list[str]:
    entries = []
    for place, title in enumerate(titles):
        x = MARGIN + place * LEGEND_STEP
        entries.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{colour(place)}"/>')
        entries.append(text(x + 18, 24, title))
    return entries


def text(
    x: float, y: float, said: str, *, anchor: str = "start", size: int = 12, weight: str = "normal"
) -> str:
    """One line of text; `anchor` says which of its ends, or its middle, is at x."""
    return (
        f'<text x="{x:g}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}">{escape(said)}</text>'
    )


def colour(place: int) -> str:
    """That of the legend's entry at this place."""
    return COLOURS[place % len(COLOURS)]


def line(points: Sequence[tuple[float, float]], colour: str, *, width: float) -> str:
    """From point to point."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def dot(point: tuple[float, float], colour: str, *, radius: float) -> str:
    """A filled circle."""
    x, y = point
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"/>'
