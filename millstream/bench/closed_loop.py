"""So many clients, each of which sends its next request when it has the answer to the last.

It finds how much a service can do at most. Its times are those of clients who wait for each other:
a server that stalls is sent less, so that they say nothing of users who come by themselves.
"""

import asyncio
import math
import time

from millstream.bench.answers import Answer
from millstream.bench.connections import IDLE, Connection, Dialler
from millstream.bench.open_loop import (
    ABANDONED,
    BROKEN,
    OPEN_TIMEOUT_S,
    PATIENCE_LOOK_S,
    START_S,
    Sink,
)
from millstream.bench.target import Target, encode

RETRY_S = 0.1
"""After a connection could not be opened."""


class ClosedLoop:
    """Carries out one plan against one target, once."""

    def __init__(
        self,
        target: Target,
        sink: Sink,
        *,
        clients: int,
        end_s: float,
        most_requests: int,
        patience_s: float,
    ) -> None:
        """Sends until `end_s` after the start, or `most_requests`; a client hangs up after
        `patience_s`.
        """
        self._requests = encode(target)
        self._sink = sink
        self._clients = clients
        self._end_s = end_s
        self._most = most_requests
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._dialler = Dialler(target, self)
        self._start_s = math.inf
        self._next = 0
        self._idle: list[Connection] = []
        self._opening: set[asyncio.Task[None]] = set()
        # By number, and so in the order in which they were sent.
        self._under_way: dict[int, tuple[float, Connection]] = {}
        self._done = asyncio.Event()
        self.waited = 0
        self.closed_by_server = 0
        self.unreadable = ""

    @property
    def connections(self) -> int:
        """That were opened."""
        return self._dialler.opened

    async def open(self) -> None:
        """Connect all clients. Raises OSError where nobody can be connected to."""
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            self._idle = await self._dialler.open_many(self._clients)

    async def run(self, start_s: float | None = None) -> None:
        """Send, from this moment of `time.monotonic` or soon, until the end and the last answer."""
        self._start_s = time.monotonic() + START_S if start_s is None else start_s
        await asyncio.sleep(max(self._start_s - time.monotonic(), 0.0))
        self._look_for_impatient()
        clients, self._idle = self._idle, []
        for connection in clients:
            self._carry(connection)
        self._see_whether_done()
        await self._done.wait()
        for task in self._opening:
            task.cancel()
        for connection in self._idle:
            connection.give_up()

    def stop(self) -> None:
        """Send no more; `run` returns when what is under way has ended."""
        self._most = self._next
        self._see_whether_done()

    def _now_s(self) -> float:
        return max(time.monotonic() - self._start_s, 0.0)  # uvloop may wake a little too early

    @property
    def _has_ended(self) -> bool:
        return self._next >= self._most or self._now_s() >= self._end_s

    def _see_whether_done(self) -> None:
        if not self._under_way and self._has_ended:
            self._done.set()

    def _carry(self, connection: Connection) -> None:
        """The client of this connection sends its next request, unless it is over."""
        now_s = self._now_s()
        if math.isinf(self._start_s) or self._next >= self._most or now_s >= self._end_s:
            self._idle.append(connection)
            return
        number = self._next
        self._next += 1
        connection.number = number
        self._under_way[number] = (now_s, connection)
        self._sink.begin(number, now_s, now_s)
        connection.transport.write(self._requests[number % len(self._requests)])

    def _end(self, connection: Connection, status: int, answer: Answer | None = None) -> None:
        number, connection.number = connection.number, IDLE
        sent_s, _ = self._under_way.pop(number)
        self._sink.end(number, sent_s, status, self._now_s(), answer)

    def answered(self, connection: Connection, answer: Answer) -> None:
        """A complete answer came."""
        self._end(connection, answer.status, answer)
        if answer.closes:
            connection.transport.close()
        else:
            self._carry(connection)
        self._see_whether_done()

    def misread(self, connection: Connection, why: str) -> None:
        """What came is no answer."""
        self.unreadable = why

    def lost(self, connection: Connection) -> None:
        """The connection has ended, and with it what it carried; its client opens another."""
        self.closed_by_server += 1
        if connection.number != IDLE:
            self._end(connection, BROKEN)
        elif connection in self._idle:
            self._idle.remove(connection)
        self._replace()

    def _replace(self) -> None:
        if self._has_ended:
            self._see_whether_done()
            return
        task = self._loop.create_task(self._open_one())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open_one(self) -> None:
        while not self._has_ended:
            try:
                connection = await self._dialler.open()
            except OSError:
                await asyncio.sleep(RETRY_S)
            else:
                self._carry(connection)
                break
        self._see_whether_done()

    def _look_for_impatient(self) -> None:
        since_s = self._now_s() - self._patience_s
        late = []
        for sent_s, connection in self._under_way.values():
            if sent_s >= since_s:
                break
            late.append(connection)
        for connection in late:
            connection.give_up()
            self._end(connection, ABANDONED)
            self._replace()
        self._see_whether_done()
        if not self._done.is_set():
            self._loop.call_later(PATIENCE_LOOK_S, self._look_for_impatient)
