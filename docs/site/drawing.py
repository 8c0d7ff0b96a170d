"""Boxes, arrows and words as SVG, in colours that follow the reader's system."""

from html import escape

_STYLE = """
svg { --page: #fff; --ink: #1f2733; --dim: #5b6675; --line: #8b96a5; --box: #f3f5f8;
  --blue: #2563c9; --blue-soft: #e3edfb; --amber: #955c06; --amber-soft: #fbeed5;
  --green: #14764a; --green-soft: #dcf3e6; --red: #b4232c; --red-soft: #fbe2e2; }
@media (prefers-color-scheme: dark) { svg {
  --page: #0d1117; --ink: #e3e8ef; --dim: #a3aebd; --line: #75808f; --box: #1d232c;
  --blue: #86b2fb; --blue-soft: #16294a; --amber: #e9b65a; --amber-soft: #3b2a0c;
  --green: #66cf9b; --green-soft: #113323; --red: #f08a8a; --red-soft: #431a1d; } }
text { font-family: system-ui, sans-serif; font-size: 13px; fill: var(--ink); }
.dim { fill: var(--dim); font-size: 11.5px; }
.over { paint-order: stroke; stroke: var(--page); stroke-width: 4px; }
.head { font-weight: 600; }
.path { fill: none; stroke: var(--line); stroke-width: 1.5; }
.dash { stroke-dasharray: 4 4; }
.tip { fill: var(--line); }
.box { fill: var(--box); stroke: var(--line); }
.blue { fill: var(--blue-soft); stroke: var(--blue); }
.amber { fill: var(--amber-soft); stroke: var(--amber); }
.green { fill: var(--green-soft); stroke: var(--green); }
.red { fill: var(--red-soft); stroke: var(--red); }
"""
"""The same classes stand in theme/millstream.css, for pictures that are part of a page."""

Point = tuple[float, float]


class Drawing:
    """One picture, drawn from back to front. Lengths are in units of the view box."""

    def __init__(self, width: float, height: float) -> None:
        self.size = (width, height)
        self._parts: list[str] = []

    def box(
        self, x: float, y: float, w: float, h: float, *words: str, kind: str = "box"
    ) -> "Drawing":
        """A box with its middle line of words in bold first, and the others below it."""
        self._parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="7"/>'
        )
        top = y + h / 2 - (len(words) - 1) * 8 + 4.5
        for number, line in enumerate(words):
            self.text(x + w / 2, top + number * 16, line, kind="dim" if number else "head")
        return self

    def text(
        self, x: float, y: float, words: str, *, kind: str = "", anchor: str = "middle"
    ) -> "Drawing":
        """A line of words at its base line."""
        place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
        self._parts.append(f'<text class="{kind}" {place}>{escape(words)}</text>')
        return self

    def arrow(self, *points: Point, words: str = "", dash: bool = False) -> "Drawing":
        """Along the points, its tip at the last; words stand above the middle of the first leg."""
        (ax, ay), (bx, by) = points[-2:]
        length = ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5
        ux, uy = (bx - ax) / length, (by - ay) / length
        base = (bx - 8 * ux, by - 8 * uy)
        self.line(*points[:-1], base, dash=dash)
        wings = ((base[0] - 4 * uy, base[1] + 4 * ux), (base[0] + 4 * uy, base[1] - 4 * ux))
        tip = " ".join(f"{x:.1f},{y:.1f}" for x, y in ((bx, by), *wings))
        self._parts.append(f'<polygon class="tip" points="{tip}"/>')
        if words:
            (x0, y0), (x1, y1) = points[:2]
            self.text((x0 + x1) / 2, (y0 + y1) / 2 - 6, words, kind="dim over")
        return self

    def line(self, *points: Point, dash: bool = False) -> "Drawing":
        """Along the points."""
        way = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._parts.append(f'<path class="path{" dash" if dash else ""}" d="{way}"/>')
        return self

    def svg(self) -> str:
        """The text of the file."""
        width, height = self.size
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">'
        return "\n".join([head, f"<style>{_STYLE}</style>", *self._parts, "</svg>", ""])
