"""`millstream status`: shows the broker's report once, or each second until Ctrl-C."""

import sys
import time

import msgspec

from broker.wire.keys import ClientKeys
from millstream.cli.ask import ask
from millstream.cli.errors import CommandError
from millstream.cli.report import parse, tables
from millstream.cli.tables import Table, plain, rich_group, show, write_line

WATCH_S = 1.0


def show_status(address: str, *, keys: ClientKeys | None, as_json: bool, watch: bool) -> int:
    """Exit code 0; raises CommandError where no broker answers, but watching goes on waiting."""
    if watch:
        return _watch(address, keys, as_json=as_json)
    body = ask(address, "status", keys=keys)
    if as_json:
        write_line(body.decode())
    else:
        show(_read(body, address))
    return 0


def _watch(address: str, keys: ClientKeys | None, *, as_json: bool) -> int:
    try:
        if sys.stdout.isatty() and not as_json:
            _watch_terminal(address, keys)
        while True:
            try:
                body = ask(address, "status", keys=keys)
                write_line(body.decode() if as_json else plain(_read(body, address)) + "\n")
            except CommandError as error:
                write_line(f"millstream: {error}", to=sys.stderr)
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
