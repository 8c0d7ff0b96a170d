"""Carries out the commands for versions: asks the broker, waits for what takes time, shows it."""

import os
import pwd
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from broker.wire.keys import ClientKeys
from millstream.cli.ask import ANSWER_S, Conversation, accepted
from millstream.cli.errors import CommandError
from millstream.cli.tables import Table, show, write_line
from millstream.cli.traffic_report import Traffic, compared, history, traffic, waiting

if TYPE_CHECKING:
    from broker.wire.messages import Report

LOOK_S = 1.0
"""How often a change that waits for versions is looked at."""
LOST_S = 10.0
"""For so long a change may neither wait for a version nor be answered: a disk may be slow."""
ORDER, LOOK = 1, 2
"""What a question's id says of it."""

_SHOWN: dict[str, Callable[[bytes], Sequence[Table]]] = {
    "traffic": traffic,
    "compare": compared,
    "history": history,
}


def look(
    address: str, what: str, body: dict[str, object], *, keys: ClientKeys | None, as_json: bool
) -> int:
    """Show what the broker answers. Exit code 0; raises CommandError."""
    with Conversation(address, keys) as broker:
        broker.ask(what, msgspec.json.encode(body))
        report = broker.hear(ANSWER_S)
        if report is None:
            raise broker.silence()
    _show(what, accepted(report), as_json=as_json)
    return 0


def change(
    address: str,
    what: str,
    body: dict[str, object],
    *,
    why: str,
    keys: ClientKeys | None,
    as_json: bool,
) -> int:
    """Have the broker change the traffic, and show it then. Exit code 0; raises CommandError.

    A change may wait for a version to be loaded; who gives up waiting does not stop it.
    """
    order = _Order(str(body["pipeline"]))
    try:
        with Conversation(address, keys) as broker:
            broker.ask(what, msgspec.json.encode(body | {"by": who(), "why": why}), ORDER)
            report = accepted(order.wait(broker))
    except KeyboardInterrupt:
        raise CommandError(order.left(), code=130) from None
    _show("traffic", report, as_json=as_json)
    return 0


def who() -> str:
    """Who gives this command: user@host."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in containers with a user of their own
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


class _Order:
    """A change that was asked for, until its answer comes."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._told = ""
        self._epoch = 0
        self._heard_s = self._known_s = self._looked_s = time.monotonic()

    def wait(self, broker: Conversation) -> "Report":
        """The answer, however long it takes while the broker says that it waits.

        Raises CommandError where the broker is silent, another one, or knows of no such change.
        """
        question = msgspec.json.encode({"pipeline": self._pipeline})
        while True:
            report = broker.hear(max(self._looked_s + LOOK_S - time.monotonic(), 0.01))
            now = time.monotonic()
            if report is not None:
                self._heard_s = now
                if report.id != LOOK:
                    return report
                self._see(report, now)
            elif now - self._heard_s > LOOK_S + ANSWER_S:
                raise broker.silence()
            if now - self._looked_s >= LOOK_S:
                self._looked_s = now
                broker.ask("traffic", question, LOOK)

    def _see(self, report: "Report", now: float) -> None:
        if self._epoch not in (0, report.epoch):
            raise CommandError(f"the broker has begun anew meanwhile; {self._look}", code=1)
        self._epoch = report.epoch
        seen = _parse(accepted(report).body)
        if seen.pending is not None:
            self._known_s = now
            if (said := waiting(seen)) != self._told:
                self._told = said
                write_line(said, to=sys.stderr)
        elif now - self._known_s > LOST_S:
            raise CommandError(f"the broker gives no answer; {self._look}", code=1)

    def left(self) -> str:
        """What becomes of it when nobody waits any longer."""
        if self._told:
            return f"not waiting any longer; the change goes on at the broker: {self._look}"
        return f"not waiting for the answer: {self._look}"

    @property
    def _look(self) -> str:
        return f"'millstream traffic {self._pipeline}' shows how it stands"


def _parse(body: bytes) -> Traffic:
    try:
        return msgspec.json.decode(body, type=Traffic)
    except msgspec.MsgspecError as error:
        raise CommandError(f"the broker's answer cannot be read: {error}", code=1) from None


def _show(what: str, report: "Report", *, as_json: bool) -> None:
    if as_json:
        write_line(report.body.decode())
    else:
        try:
            show(_SHOWN[what](report.body))
        except msgspec.MsgspecError as error:
            raise CommandError(f"the broker's answer cannot be read: {error}", code=1) from None
    if report.message:
        write_line(f"millstream: {report.message}", to=sys.stderr)
