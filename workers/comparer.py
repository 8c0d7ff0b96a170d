"""The process that compares the answers of two versions: a child of the broker, on its host.

`python -m workers.comparer`, with a `Task` in JSON on its standard input. It may run code of
plug-ins, for as long as that takes, which the broker must not. It steps aside for whatever else
wants the processor, and ends when the broker does.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from broker.wire import log
from broker.wire.keys import ClientKeys
from broker.wire.messages import PROTOCOL_VERSION, Compare, Compared, ComparerHello, Pair, Verdict
from workers.comparing import Rule, Unreadable, agree, chosen, read, shown
from workers.link import Link, make_socket
from workers.loader import LoadError, load

HELLO_S = 1.0
AT_ONCE = 16
"""Verdicts that wait to leave together, while there is more to compare."""
NOTE_CHARS = 500

_PR_SET_PDEATHSIG = 1
_NICENESS = 19

Own = Callable[[Any, Any], Any]


class Task(Struct, forbid_unknown_fields=True):
    """What the broker tells its child. The keys are Z85 text, and empty where it speaks clearly."""

    parent_pid: int
    address: str
    public: str = ""
    secret: str = ""
    server: str = ""


class Plugins:
    """The functions `compare` of plug-ins, by the script and class that a worker names."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[Own | None, str]] = {}

    def find(self, plugin: str) -> tuple[Own | None, str]:
        """The function, or None and why there is none. A script that has changed is read again."""
        script, _, class_name = plugin.rpartition(":")
        try:
            key = (plugin, Path(script).stat().st_mtime_ns)
        except (OSError, ValueError) as error:
            return None, f"{script or 'the script'} cannot be read here: {error}"
        if key not in self._known:
            self._known[key] = _load(script, class_name)
        return self._known[key]


def _load(script: str, class_name: str) -> tuple[Own | None, str]:
    try:
        plugin, _ = load(script, class_name)
    except LoadError as error:
        return None, str(error)
    own = getattr(sys.modules.get(plugin.__module__), "compare", None)
    if not callable(own):
        return None, f"{script} has no function compare(a, b)"
    return own, ""


def judge(pair: Pair, plugins: Plugins) -> Verdict:
    """Compare two answers. Where it cannot be done as was asked, the note says why."""
    rule = Rule(pair.how, pair.rtol, pair.atol, pair.key)
    try:
        both = read(pair.stable, pair.stable_type), read(pair.shadow, pair.shadow_type)
    except Unreadable as error:
        return Verdict(pair.number, False, note=str(error), unread=True)
    note = ""
    stable, shadow = both
    try:
        stable, shadow = chosen(stable, rule.key), chosen(shadow, rule.key)
    except LookupError as error:
        note = f"all of it is compared: {error}"
    alike = None
    if rule.how == "plugin":
        own, note = plugins.find(pair.plugin)
        if own is not None:
            try:
                alike = bool(own(stable, shadow))
            except Exception as error:  # a plug-in may raise what it likes
                note = f"compare raised {type(error).__name__}: {error}"
        if alike is None:
            note = f"numbers are compared with tolerance: {note}"
    if alike is None:
        alike = agree(stable, shadow, rule)
    note = note[:NOTE_CHARS]
    if alike:
        return Verdict(pair.number, True, note=note)
    return Verdict(pair.number, False, shown(both[0]), shown(both[1]), note)


class _Comparer:
    """The link to the broker, and the beat, which goes on between one pair and the next."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._plugins = Plugins()
        self._hello_at = 0.0

    def run(self) -> None:
        """Until the broker ends, which ends this process, too."""
        while True:
            self._beat()
            self._link.wait(HELLO_S)
            for message in self._link.receive():
                if type(message) is Compare:
                    self._compare(message)

    def _compare(self, message: Compare) -> None:
        for start in range(0, len(message.pairs), AT_ONCE):
            verdicts = []
            for pair in message.pairs[start : start + AT_ONCE]:
                verdicts.append(judge(pair, self._plugins))
                self._beat()
            self._link.send(Compared(message.epoch, verdicts))

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._hello_at >= HELLO_S:
            self._hello_at = now
            self._link.send(ComparerHello(PROTOCOL_VERSION, os.getpid()))


def main() -> int:
    """Compares until the broker is gone."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != task.parent_pid:  # it died before the kernel knew
        return 1
    with suppress(OSError):
        os.nice(_NICENESS)
    sys.argv[1:] = []  # scripts that read arguments have none
    log.setup_from(os.environ)
    log.configure(role="comparer")
    log.switch_by_signal()
    keys = None
    if task.secret:
        keys = ClientKeys(task.public.encode(), task.secret.encode(), task.server.encode())
    link = Link(make_socket(task.address, b"x" + os.urandom(16), keys))
    _Comparer(link).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
