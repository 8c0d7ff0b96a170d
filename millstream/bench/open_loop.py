"""Sends requests when they are due, whatever the server does: users do not wait for each other.

A time counts from when the request was to be sent, and not from when it was, so that neither a slow
server nor a late generator makes figures look better than they are. (Leaving that out is what Gil
Tene called coordinated omission: "How NOT to Measure Latency", 2013.)
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from millstream.bench.alarm import Alarm
from millstream.bench.answers import Answer
from millstream.bench.connections import IDLE, Connection, Dialler
from millstream.bench.target import Target, encode

SPARE_S = 0.02
SPARE_CONNECTIONS = 16
"""Connections are opened before they are needed: so many idle ones as requests come in this time,
and a few more."""

OPEN_TIMEOUT_S = 10.0
START_S = 0.05
"""Between all that is made ready and the start of the plan."""

PATIENCE_LOOK_S = 0.01
"""How often those are looked for that have waited too long."""

ABANDONED = -1
BROKEN = -2
"""How a request can end without an answer: its client hung up, or its connection ended."""


class Sink(Protocol):
    """Who is told what becomes of each request. Times are seconds after the start."""

    def begin(self, number: int, planned_s: float, now_s: float) -> None:
        """The generator turns to it: it goes out now, or waits for a connection."""

    def end(
        self, number: int, planned_s: float, status: int, now_s: float, answer: Answer | None
    ) -> None:
        """Its one end: the status of its answer, ABANDONED or BROKEN."""


class OpenLoop:
    """Carries out one plan against one target, once."""

    def __init__(
        self,
        target: Target,
        planned: Iterator[float],
        sink: Sink,
        *,
        rate_per_s: float,
        patience_s: float,
        open_ahead: int,
        most_connections: int = 1_000_000,
    ) -> None:
        """`planned` are the moments, in order. `rate_per_s` is about theirs. `patience_s`: from its
        moment until a request's client hangs up. `open_ahead`: connections before the start, beside
        the spare ones; beyond `most_connections` requests wait, which counts as the server's time.
        """
        self._requests = encode(target)
        self._planned = planned
        self._sink = sink
        self._patience_s = patience_s
        self._most = most_connections
        self._loop = asyncio.get_running_loop()
        self._dialler = Dialler(target, self)
        self._alarm = Alarm(self._loop, self._send_due)
        self._start_s = math.inf
        self._due_s: float | None = None
        self._next = 0
        self._spare = min(math.ceil(rate_per_s * SPARE_S) + SPARE_CONNECTIONS, self._most)
        self._ahead = min(open_ahead + self._spare, self._most)
        self._idle: list[Connection] = []
        self._opening: set[asyncio.Task[None]] = set()
        # By number, and so in the order of their moments.
        self._under_way: dict[int, float] = {}
        self._carried: dict[int, Connection] = {}
        self._waiting: deque[int] = deque()
        self._done = asyncio.Event()
        self._closed = False
        self.waited = 0
        """Requests that found no connection free, and waited for the server to take another."""
        self.closed_by_server = 0
        self.unreadable = ""
        """Why what came was no answer; "" where all were."""

    @property
    def connections(self) -> int:
        """That were opened."""
        return self._dialler.opened

    async def open(self) -> None:
        """Connect. Raises OSError (TimeoutError is one) where nobody can be connected to."""
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            for connection in await self._dialler.open_many(self._ahead):
                self._free(connection)

    async def run(self, start_s: float | None = None) -> None:
        """Send all that is planned, from this moment of `time.monotonic` or soon, until each has
        ended.
        """
        self._start_s = time.monotonic() + START_S if start_s is None else start_s
        self._due_s = next(self._planned, None)
        if self._due_s is not None:
            self._alarm.set(self._start_s + self._due_s)
            self._look_for_impatient()
            await self._done.wait()
        self._close()

    def stop(self) -> None:
        """Send no more; `run` returns when what is under way has ended."""
        self._due_s = None
        self._planned = iter(())
        if not self._under_way:
            self._done.set()

    def _close(self) -> None:
        self._closed = True
        self._alarm.close()
        for task in self._opening:
            task.cancel()
        for connection in self._idle:
            connection.give_up()

    def _now_s(self) -> float:
        return time.monotonic() - self._start_s

    def _send_due(self) -> None:
        while self._due_s is not None:
            now_s = self._now_s()
            if self._due_s > now_s:
                self._alarm.set(self._start_s + self._due_s)
                return
            number, planned_s = self._next, self._due_s
            self._next += 1
            self._due_s = next(self._planned, None)
            self._under_way[number] = planned_s
            self._sink.begin(number, planned_s, now_s)
            if self._idle:
                self._carry(self._idle.pop(), number)
            else:
                self.waited += 1
                self._waiting.append(number)
            self._open_more()

    def _open_more(self) -> None:
        while len(self._idle) + len(self._opening) - len(self._waiting) < self._spare:
            if len(self._carried) + len(self._idle) + len(self._opening) >= self._most:
                return
            task = self._loop.create_task(self._open_one())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open_one(self) -> None:
        try:
            connection = await self._dialler.open()
        except OSError:
            if self._waiting:
                self._end(self._waiting.popleft(), BROKEN)
            return
        if self._closed:
            connection.give_up()
        else:
            self._free(connection)

    def _carry(self, connection: Connection, number: int) -> None:
        connection.number = number
        self._carried[number] = connection
        connection.transport.write(self._requests[number % len(self._requests)])

    def _free(self, connection: Connection) -> None:
        if self._waiting:
            self._carry(connection, self._waiting.popleft())
        else:
            self._idle.append(connection)

    def _end(self, number: int, status: int, answer: Answer | None = None) -> None:
        planned_s = self._under_way.pop(number)
        self._carried.pop(number, None)
        self._sink.end(number, planned_s, status, self._now_s(), answer)
        if self._due_s is None and not self._under_way:
            self._done.set()

    def answered(self, connection: Connection, answer: Answer) -> None:
        """A complete answer came."""
        number, connection.number = connection.number, IDLE
        self._end(number, answer.status, answer)
        if answer.closes:
            connection.transport.close()
        else:
            self._free(connection)

    def misread(self, connection: Connection, why: str) -> None:
        """What came is no answer."""
        self.unreadable = why

    def lost(self, connection: Connection) -> None:
        """The connection has ended, and with it what it carried."""
        self.closed_by_server += 1
        if connection.number != IDLE:
            self._end(connection.number, BROKEN)
        elif connection in self._idle:
            self._idle.remove(connection)
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        if self._waiting and not self._closed:
            self._open_more()

    def _look_for_impatient(self) -> None:
        since_s = self._now_s() - self._patience_s
        late = []
        for number, planned_s in self._under_way.items():
            if planned_s >= since_s:
                break
            late.append(number)
        for number in late:
            self._abandon(number)
        if not self._done.is_set():
            self._loop.call_later(PATIENCE_LOOK_S, self._look_for_impatient)

    def _abandon(self, number: int) -> None:
        connection = self._carried.get(number)
        if connection is None:
            self._waiting.remove(number)
        else:
            connection.give_up()
        self._end(number, ABANDONED)
        self._serve_waiting()
