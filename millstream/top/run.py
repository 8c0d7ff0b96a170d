"""What `millstream top` does, once its options are read."""

import os
import sys
import time
from contextlib import suppress

import msgspec
from rich.console import Console, Group
from rich.live import Live

from broker.wire.keys import ClientKeys
from millstream.cli.ask import Conversation, accepted, ask
from millstream.cli.errors import CommandError
from millstream.top.report import ASKED, Report, parse
from millstream.top.terminal import ENDED, Terminal
from millstream.top.view import State, lines, pressed

ANSWER_S = 0.3
"""Longer than a broker takes that is well, and short enough for keys to be heard meanwhile."""
SILENT_S = 2.0
PLAIN_WIDTH = 120
ESCAPE = ("q", "Q", "\x04", ENDED)


def show_top(address: str, *, keys: ClientKeys | None, interval_s: float, once: bool) -> int:
    """Exit code 0, also after Ctrl-C; CommandError where no broker answers at the begin."""
    report = _read(ask(address, "status", keys=keys, body=ASKED))
    if once or not sys.stdout.isatty():
        console = Console(highlight=False)
        width = console.width if console.is_terminal else PLAIN_WIDTH
        console = Console(highlight=False, width=width)
        for line in lines(report, State(), width=width, height=None):
            console.print(line, soft_wrap=True)
        return 0
    with suppress(KeyboardInterrupt):
        _Screen(_Source(address, keys), report, interval_s).run()
    return 0


def _read(body: bytes) -> Report:
    try:
        return parse(body)
    except msgspec.MsgspecError as error:
        raise CommandError(f"the broker's report cannot be read: {error}", code=1) from None


class _Source:
    """The broker, over one socket for as long as it answers."""

    def __init__(self, address: str, keys: ClientKeys | None) -> None:
        self._address = address
        self._keys = keys
        self._broker: Conversation | None = None
        self._number = 0
        self._silent_since = 0.0

    def next(self) -> Report | None:
        """What it answers now, or None where that takes longer. Raises CommandError."""
        if self._broker is None:
            self._broker = Conversation(self._address, self._keys).__enter__()
            self._silent_since = time.monotonic()
        self._number += 1
        self._broker.ask("status", ASKED, self._number)
        until = time.monotonic() + ANSWER_S
        while (left_s := until - time.monotonic()) > 0:
            report = self._broker.hear(left_s)
            if report is not None and report.id in (self._number, 0):
                self._silent_since = time.monotonic()
                return _read(accepted(report).body)
        if time.monotonic() - self._silent_since > SILENT_S:
            why = self._broker.silence()
            self.close()
            raise why
        return None

    def close(self) -> None:
        if self._broker is not None:
            self._broker.__exit__(None, None, None)
            self._broker = None


class _Screen:
    """Draws what the source says, and heeds the keys."""

    def __init__(self, source: _Source, report: Report, interval_s: float) -> None:
        self._source = source
        self._report = report
        self._interval_s = interval_s
        self._state = State()
        self._console = Console(highlight=False)

    def run(self) -> None:
        """Until somebody presses q, or Ctrl-C (KeyboardInterrupt)."""
        due = time.monotonic() + self._interval_s
        with (
            Terminal(sys.stdin.fileno()) as terminal,
            Live(console=self._console, screen=True, auto_refresh=False) as live,
        ):
            try:
                while True:
                    live.update(self._drawn(), refresh=True)
                    for key in terminal.wait(due - time.monotonic()):
                        if key in ESCAPE:
                            return
                        pressed(key, self._report, self._state)
                    if time.monotonic() >= due:
                        due = time.monotonic() + self._interval_s
                        self._look()
            finally:
                self._source.close()

    def _look(self) -> None:
        if self._state.paused:
            return
        try:
            report = self._source.next()
        except CommandError as error:
            self._state.trouble = str(error)
            return
        if report is not None:
            self._report = report
            self._state.trouble = ""

    def _drawn(self) -> Group:
        # The terminal's own word: COLUMNS and LINES, which rich goes by, do not follow a resize.
        self._console.size = width, height = os.get_terminal_size(sys.stdout.fileno())
        return Group(*lines(self._report, self._state, width=width, height=height))
