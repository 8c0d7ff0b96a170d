"""Starts the processes that generate one load, and adds up what they found."""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import IO

import msgspec

from millstream.bench.load import Failed, Load, Part, Progress, Ready, Start
from millstream.bench.process import Done
from millstream.bench.tally import Tally

START_IN_S = 0.1
"""From when all are connected to the start that they share."""

SPARE_S = 60.0
"""Beyond what its plan and patience take, a process that says nothing has gone wrong."""

_Message = Ready | Progress | Failed | Done

OnProgress = Callable[[int, int], None]
"""Is told how many were sent, and how many of these have ended."""


class CannotMeasure(Exception):
    """The load could not be carried out; the message is one line."""


def measure(load: Load, on_progress: OnProgress | None = None) -> Tally:
    """Carry out a load. Raises CannotMeasure; on KeyboardInterrupt all processes end."""
    with ExitStack() as stack:
        crew = [stack.enter_context(_Member(load, part)) for part in range(load.processes)]
        for member in crew:
            message = member.hear(load.timeout_s + SPARE_S)
            if isinstance(message, Failed):
                raise CannotMeasure(message.why)
        start = Start(time.monotonic() + START_IN_S)
        for member in crew:
            member.say(start)
        most_s = load.warm_up_s + load.seconds + load.timeout_s + SPARE_S
        return _gather(crew, most_s, on_progress or _ignore)


def _gather(crew: "list[_Member]", most_s: float, on_progress: OnProgress) -> Tally:
    whole = Tally()
    progress = {member: Progress(0, 0) for member in crew}
    end = time.monotonic() + most_s
    with selectors.DefaultSelector() as selector:
        for member in crew:
            selector.register(member.out, selectors.EVENT_READ, member)
        while selector.get_map():
            ready = selector.select(max(end - time.monotonic(), 0.0))
            if not ready:
                raise CannotMeasure("the load generator did not end")
            for key, _ in ready:
                one: _Member = key.data
                for message in one.read():
                    if isinstance(message, Progress):
                        progress[one] = message
                    elif isinstance(message, Done):
                        whole.merge(message.tally)
                        selector.unregister(one.out)
            on_progress(
                sum(each.begun for each in progress.values()),
                sum(each.ended for each in progress.values()),
            )
    return whole


def _ignore(_begun: int, _ended: int) -> None:
    pass


class _Member:
    """One generating process. A context manager: at the end it is gone."""

    def __init__(self, load: Load, part: int) -> None:
        # Of the same interpreter and path, whatever folder this is called in.
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "millstream.bench.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._in: IO[bytes] = self._popen.stdin
        self.out: IO[bytes] = self._popen.stdout
        self._buffer = b""
        self.say(Part(load=load, part=part))

    def __enter__(self) -> "_Member":
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.kill()
        self._popen.wait()
        self.out.close()
        with suppress(BrokenPipeError):
            self._in.close()

    def say(self, message: object) -> None:
        with suppress(BrokenPipeError):  # it has ended: the next look at what it says tells
            self._in.write(msgspec.json.encode(message) + b"\n")
            self._in.flush()

    def hear(self, within_s: float) -> _Message:
        """The first thing that it says."""
        end = time.monotonic() + within_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.out, selectors.EVENT_READ)
            while selector.select(max(end - time.monotonic(), 0.0)):
                for message in self.read():
                    return message
        raise CannotMeasure("the load generator did not start")

    def read(self) -> list[_Message]:
        """What it has said since; there must be something to read."""
        data = os.read(self.out.fileno(), 1 << 20)
        if not data:
            code = self._popen.wait()
            raise CannotMeasure(f"the load generator exited with {code}")
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [msgspec.json.decode(line, type=_Message) for line in lines]
