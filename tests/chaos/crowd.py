"""Clients of all sorts, in a thread of their own: the load that faults are done under.

Each of the usual ones sends a request, waits for its answer, listens for a while whether more comes
than is owed, and goes on, now and then by another gateway. A request that got no answer is sent to
the next gateway, as clients do; whether that was to be expected is not decided here.
"""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from tests.chaos import jobs
from tests.chaos.connection import Answer, Connection, Ended
from tests.chaos.jobs import Job, Sort
from tests.chaos.records import Attempt, End, Incident, Pause, Records

PATIENCE_S = 2.0
"""So long after its deadline a request is given up."""
LOOKS = 10
"""In that time; so that one that stands still itself meanwhile still looks what has come."""
THINK_S = 0.3
"""Between an answer and the next request, on average."""
LONGEST_THINK_S = 1.0
CONSTANT_EVERY = 8
"""One in so many clients sends the same body always."""
MOVE_CHANCE = 0.05
"""After an answer a client may go to another gateway, so that they stay spread."""
CONNECT_AGAIN_S = 0.05
TRIES = 20
LISTEN_S = 0.1
PAUSE_S = 0.01
FLOOD = 400
SLOW = 6
VANISHING = 30
STOP_S = 90.0
"""More than all tries of the most patient request may take is a hang of this module."""


class Crowd:
    """See the module. A method that has clients do something returns at once."""

    def __init__(self, ports: Sequence[int], *, clients: int, seed: int) -> None:
        self.records = Records()
        self._ports = ports
        self._clients = clients
        self._chance = Random(seed)
        self._numbers = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_usual(self) -> bool:
        """Whether nobody is here but the usual clients."""
        return len(self._tasks) == self._clients

    def start(self) -> None:
        """The usual clients begin."""
        self._thread.start()

    def stop(self) -> Records:
        """Nobody sends any more; returns once all have what they are owed, or have given up."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), "clients hang"
        return self.records

    def poison(self, how: str, stage: str) -> None:
        """One request that does harm in a stage."""
        self._have(self._serve_once(lambda n: jobs.poison(n, how, stage)))

    def flood(self, which: int) -> int:
        """Hundreds of requests of one client at once; returns how many."""
        key = f"flood-{which}"
        for _ in range(FLOOD):
            self._have(self._serve_once(lambda n: jobs.one_of_many(n, key)))
        return FLOOD

    def slow(self, seconds: float) -> int:
        """Some clients that take so long to send their bodies; returns how many."""
        for _ in range(SLOW):
            self._have(self._serve_once(self._slow_job, seconds))
        return SLOW

    def vanish(self) -> int:
        """Some clients that are gone before they have an answer, half of them while they send;
        returns how many.
        """
        for index in range(VANISHING):
            self._have(self._vanish(is_half=index % 2 == 0))
        return VANISHING

    def _have(self, doing: Coroutine[Any, Any, None]) -> None:
        self._loop.call_soon_threadsafe(self._begin, doing)

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        self._loop.run_until_complete(self._live())
        self._loop.close()

    async def _live(self) -> None:
        for index in range(self._clients):
            make = jobs.constant if index % CONSTANT_EVERY == 0 else jobs.usual
            self._begin(self._serve_on(index, make))
        watch = asyncio.create_task(self._watch())
        await self._stopping.wait()
        while self._tasks:
            await asyncio.wait(self._tasks)
        watch.cancel()

    def _begin(self, doing: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if (error := task.exception()) is not None:  # a bug of the clients': let nobody miss it
            self.records.strays.append(Incident(0, time.monotonic(), f"a client failed: {error!r}"))

    async def _watch(self) -> None:
        """Whether we ourselves stand still."""
        while True:
            due_s = time.monotonic() + PAUSE_S
            await asyncio.sleep(PAUSE_S)
            now = time.monotonic()
            if now - due_s > PAUSE_S:
                self.records.pauses.append(Pause(due_s, now))

    # -------------------------------------------------------------- clients

    async def _serve_on(self, index: int, make: Callable[[int, Random], Job]) -> None:
        """A usual client."""
        client = _Client(self._ports, index, self.records)
        while not self._stopping.is_set():
            await client.serve(make(next(self._numbers), self._chance))
            think_s = self._chance.expovariate(1.0 / THINK_S)
            await client.listen(min(think_s, LONGEST_THINK_S))
            if self._chance.random() < MOVE_CHANCE:
                client.move()
        client.leave()

    async def _serve_once(self, make: Callable[[int], Job], slow_s: float = 0.0) -> None:
        """A client that comes for one request."""
        number = next(self._numbers)
        client = _Client(self._ports, number, self.records)
        await client.serve(make(number), slow_s)
        await client.listen(LISTEN_S)
        client.leave()

    def _slow_job(self, number: int) -> Job:
        return jobs.upload(number, self._chance, Sort.SLOW, deadline_s=10.0)

    async def _vanish(self, *, is_half: bool) -> None:
        number = next(self._numbers)
        client = _Client(self._ports, number, self.records)
        await client.vanish(jobs.upload(number, self._chance, Sort.SLOW, 10.0), is_half=is_half)


class _Client:
    """One client, and the connection that it has at present."""

    def __init__(self, ports: Sequence[int], at: int, records: Records) -> None:
        self._ports = ports
        self._at = at
        self._records = records
        self._connection: Connection | None = None

    async def serve(self, job: Job, slow_s: float = 0.0) -> None:
        """Send a job until it is answered."""
        self._records.sent += 1
        for _ in range(TRIES):
            attempt, answer = await self._try(job, slow_s)
            self._records.attempts.append(attempt)
            if answer is None or answer.is_last:
                self.move()
            if answer is not None and attempt.code != "draining":
                return
        self._records.unanswered.append(job)

    async def _try(self, job: Job, slow_s: float) -> tuple[Attempt, Answer | None]:
        connection = await self._connected()
        sent_s = time.monotonic()
        if slow_s:
            await connection.send_slowly(job, slow_s)
        else:
            connection.send(job)
        answer = None
        try:
            answer = await _patiently(connection.receive(), job.deadline_s)
            end = End.SILENT if answer is None else End.ANSWERED
        except Ended:
            end = End.CUT
        ended_s = time.monotonic()
        if answer is None:
            return Attempt(job, connection.port, sent_s, ended_s, end), None
        fault = job.fault_of(answer.status, answer.id, answer.body, answer.version)
        code = "" if answer.status == 200 or fault else json.loads(answer.body)["error"]["code"]
        attempt = Attempt(
            job, connection.port, sent_s, ended_s, end, answer.status, code, fault=fault
        )
        return attempt, answer

    async def listen(self, seconds: float) -> None:
        """Whether anything comes that is not owed."""
        connection = self._connection
        if connection is None:
            await asyncio.sleep(seconds)
            return
        try:
            stray = await connection.listen(seconds)
        except Ended:
            self._records.ends.append(Incident(connection.port, time.monotonic(), "it ended"))
            self.move()
            return
        if stray:
            self._records.strays.append(Incident(connection.port, time.monotonic(), repr(stray)))

    async def vanish(self, job: Job, *, is_half: bool) -> None:
        """Send a request, or the half of it, and go away."""
        connection = await self._connected()
        if is_half:
            connection.send_half(job)
        else:
            connection.send(job)
        self._records.vanished += 1
        await asyncio.sleep(0)
        self.leave()

    def move(self) -> None:
        """To the next gateway."""
        self.leave()
        self._at += 1

    def leave(self) -> None:
        """End the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self) -> Connection:
        """The connection, or a new one to whichever gateway is there."""
        while self._connection is None:
            try:
                port = self._ports[self._at % len(self._ports)]
                self._connection = await Connection.open(port)
            except OSError:
                self._at += 1
                await asyncio.sleep(CONNECT_AGAIN_S)
        return self._connection


async def _patiently(receive: Coroutine[Any, Any, Answer], deadline_s: float) -> Answer | None:
    """The answer; None where there is none long after the deadline. Raises Ended."""
    receiving = asyncio.ensure_future(receive)
    for seconds in (deadline_s, *[PATIENCE_S / LOOKS] * LOOKS):
        done, _ = await asyncio.wait({receiving}, timeout=seconds)
        if done:
            return receiving.result()
    receiving.cancel()
    return None
