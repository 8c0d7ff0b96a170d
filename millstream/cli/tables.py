"""What commands show: lines and tables, as rich draws them or as aligned text."""

import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Group

NUMBERS = {
    *("queue", "running", "ready", "batch", "done", "failed"),
    *("pid", "batches", "items", "workers", "share"),
}
"""Columns that stand to the right."""
LONGEST_CELL = 160
"""Characters: what an exception says may go on for lines."""


class Table(NamedTuple):
    """Lines of text above it, then a head and rows of equal length; no head means lines alone."""

    lines: Sequence[str]
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def show(shown: Sequence[Table]) -> None:
    """On a terminal, or as text for whoever reads standard output."""
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415  # text needs none

        Console(highlight=False).print(rich_group(shown))
    else:
        write_line(plain(shown))


def plain(shown: Sequence[Table]) -> str:
    """The tables as aligned text, for pipes and logs."""
    blocks = []
    for table in shown:
        lines = list(table.lines)
        grid = [table.head, *table.rows] if table.head else []
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        for row in grid:
            cells = [
                cell.rjust(width) if title in NUMBERS else cell.ljust(width)
                for cell, width, title in zip(row, widths, table.head, strict=True)
            ]
            lines.append("  " + "  ".join(cells).rstrip())
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def rich_group(shown: Sequence[Table]) -> "Group":
    """The tables for a terminal."""
    from rich.console import Group, RenderableType  # noqa: PLC0415
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    parts: list[RenderableType] = []
    for table in shown:
        parts += [Text(line, style="bold" if i == 0 else "") for i, line in enumerate(table.lines)]
        if table.head:
            grid = RichTable(box=None, pad_edge=False, header_style="dim")
            for title in table.head:
                grid.add_column(title, justify="right" if title in NUMBERS else "left")
            for row in table.rows:
                grid.add_row(*map(Text, row))
            parts.append(Padding(grid, (0, 0, 0, 2)))
        parts.append(Text())
    return Group(*parts[:-1])


def shortened(text: str) -> str:
    """In one line, as much of it as a table bears; `--json` and the logs have it all."""
    return textwrap.shorten(text, LONGEST_CELL, placeholder=" …")


def duration(seconds: float) -> str:
    """In the two largest units."""
    whole = int(seconds)
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def write_line(text: str, *, to: TextIO | None = None) -> None:
    """To standard output, at once."""
    out = to or sys.stdout
    out.write(text + "\n")
    out.flush()
