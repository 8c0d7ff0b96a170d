"""`millstream status`: shows the broker's report once, or each second until Ctrl-C."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import msgspec

from broker.wire.keys import ClientKeys
from millstream.cli.ask import ask
from millstream.cli.errors import CommandError
from millstream.cli.report import NUMBERS, Table, parse, tables

if TYPE_CHECKING:
    from rich.console import Group

WATCH_S = 1.0


def show_status(address: str, *, keys: ClientKeys | None, as_json: bool, watch: bool) -> int:
    """Exit code 0; raises CommandError where no broker answers, but watching goes on waiting."""
    if watch:
        return _watch(address, keys, as_json=as_json)
    body = ask(address, "status", keys=keys)
    if as_json:
        _write_line(body.decode())
    elif sys.stdout.isatty():
        _print_rich(_read(body, address))
    else:
        _write_line(plain(_read(body, address)))
    return 0


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


def _watch(address: str, keys: ClientKeys | None, *, as_json: bool) -> int:
    try:
        if sys.stdout.isatty() and not as_json:
            _watch_terminal(address, keys)
        while True:
            try:
                body = ask(address, "status", keys=keys)
                _write_line(body.decode() if as_json else plain(_read(body, address)) + "\n")
            except CommandError as error:
                _write_line(f"millstream: {error}", to=sys.stderr)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return 0


def _watch_terminal(address: str, keys: ClientKeys | None) -> None:
    """Redraws in place until KeyboardInterrupt."""
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with Live(auto_refresh=False, screen=True) as live:
        while True:
            try:
                body = ask(address, "status", keys=keys)
                live.update(rich_group(_read(body, address)), refresh=True)
            except CommandError as error:
                live.update(Text(str(error)), refresh=True)
            time.sleep(WATCH_S)


def _read(body: bytes, address: str) -> list[Table]:
    try:
        return tables(parse(body), address)
    except msgspec.MsgspecError as error:
        raise CommandError(f"the broker's report cannot be read: {error}", code=1) from None


def _print_rich(shown: Sequence[Table]) -> None:
    from rich.console import Console  # noqa: PLC0415

    Console(highlight=False).print(rich_group(shown))


def _write_line(text: str, *, to: TextIO | None = None) -> None:
    out = to or sys.stdout
    out.write(text + "\n")
    out.flush()
