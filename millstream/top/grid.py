"""Columns that fit: those that matter least go first where a terminal is narrow. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

GAP = 2
BLOCKS = " ▏▎▍▌▋▊▉█"
STEPS = "▁▂▃▄▅▆▇█"


class Column(NamedTuple):
    """`matters`: 0 stays always, the largest goes first."""

    title: str
    cells: Sequence[str]
    matters: int = 0
    right: bool = True
    styles: Sequence[str] = ()


def grid(columns: Sequence[Column], width: int, row_styles: Sequence[str] = ()) -> list[Text]:
    """A head and rows, as many of the columns as have room."""
    kept = list(columns)
    while len(kept) > 1 and _width(kept) > width:
        least = max(kept, key=lambda column: column.matters)
        kept.remove(least)
    widths = [_column_width(column) for column in kept]
    head = Text(style="dim")
    head.append(
        _join([(column.title, w, column.right) for column, w in zip(kept, widths, strict=True)])
    )
    lines = [head]
    for row in range(len(kept[0].cells)):
        line = Text(style=row_styles[row] if row_styles else "")
        for place, (column, w) in enumerate(zip(kept, widths, strict=True)):
            cell = _pad(column.cells[row], w, right=column.right)
            style = column.styles[row] if column.styles else ""
            line.append((" " * GAP if place else "") + cell, style=style)
        lines.append(line)
    for line in lines:
        line.truncate(width)
    return lines


def _join(cells: Sequence[tuple[str, int, bool]]) -> str:
    return (" " * GAP).join(_pad(text, width, right=right) for text, width, right in cells)


def _pad(text: str, width: int, *, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _column_width(column: Column) -> int:
    return max(len(column.title), *map(len, column.cells), 0)


def _width(columns: Sequence[Column]) -> int:
    return sum(map(_column_width, columns)) + GAP * (len(columns) - 1)


def bar(share: float, cells: int) -> str:
    """So much of its length, in eighths of a cell, and blank behind."""
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BLOCKS[rest] if rest else "")).ljust(cells)


def sparkline(values: Sequence[float | None], cells: int) -> str:
    """The latest values, one a cell, the last at the right; blank where there was none."""
    shown = list(values)[-cells:]
    highest = max((value for value in shown if value is not None), default=0.0)
    said = "".join(" " if value is None else STEPS[_step(value, highest)] for value in shown)
    return said.rjust(cells)


def _step(value: float, highest: float) -> int:
    if highest <= 0.0 or value <= 0.0:
        return 0
    return min(int(value / highest * len(STEPS)), len(STEPS) - 1)
