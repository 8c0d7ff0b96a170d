"""An open-loop load generator, a process of its own: `python -m benchmarks.poisson --help`.

Sends requests at the moments of a plan, whatever the server does, and prints what became of them as
JSON: the figures of `benchmarks.open_loop`, and its own share of a core. Exits 0 when it could
measure, sound or not, 1 when it could not connect, 2 on wrong usage.
"""

import argparse
import asyncio
import dataclasses
import gc
import json
import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import cast
from urllib.parse import SplitResult, urlsplit

import uvloop

from benchmarks import answers, open_loop
from benchmarks.alarm import Alarm
from benchmarks.answers import Answer
from benchmarks.open_loop import ABANDONED, BROKEN, Figures, Log, Plan

# Connections are opened before they are needed: so many idle ones as arrive in this time, and a
# few more.
SPARE_S = 0.02
SPARE_CONNECTIONS = 16
# So many at a time before the start, since a server's queue of connections it has not accepted is
# short, and one that overflows costs a second.
OPENED_AT_ONCE = 64
OPEN_TIMEOUT_S = 10.0
# Between all that is made ready and the start of the plan.
START_S = 0.05
# How often those are looked for that have been waiting too long.
PATIENCE_LOOK_S = 0.01
_IDLE = -1


class _Connection(asyncio.Protocol):
    """One keep-alive connection, which carries one request at a time or none."""

    __slots__ = ("_generator", "_received", "given_up", "number", "transport")

    transport: asyncio.Transport

    def __init__(self, generator: "Generator") -> None:
        self._generator = generator
        self._received = b""
        self.number = _IDLE
        self.given_up = False
        """Closed from this side."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            answer = answers.parse(self._received)
        except ValueError as error:
            self._generator.misread(self, str(error))
            return
        if answer is not None:
            self._received = b""
            self._generator.answered(self, answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._generator.lost(self)


class Generator:
    """Carries out one plan against one server, once."""

    def __init__(self, host: str, port: int, request: bytes, plan: Plan) -> None:
        self._host = host
        self._port = port
        self._request = request
        self._plan = plan
        self._moments = plan.moments()
        self._log = Log(len(self._moments))
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._loop, self._send_due)
        self._start_s = math.inf
        self._next = 0
        self._spare = math.ceil(plan.rate_per_s * SPARE_S) + SPARE_CONNECTIONS
        self._idle: list[_Connection] = []
        self._opening: set[asyncio.Task[None]] = set()
        # By number, and so in the order of their moments; None waits for a connection.
        self._under_way: dict[int, _Connection | None] = {}
        self._waiting: deque[int] = deque()
        self._done = asyncio.Event()

    async def run(self) -> Figures:
        """Send all that is planned, and count once each has ended.

        Raises OSError where nobody can be connected to.
        """
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            await self._open_ahead()
        self._start_s = time.monotonic() + START_S
        began_s, processor_s = time.monotonic(), time.process_time()
        if self._moments:
            self._alarm.set(self._start_s + self._moments[0])
            self._look_for_impatient()
            await self._done.wait()
        wall_s = time.monotonic() - began_s
        self._log.processor_percent = round((time.process_time() - processor_s) / wall_s * 100, 1)
        self._close()
        return open_loop.count(self._plan, self._moments, self._log)

    async def _open_ahead(self) -> None:
        wanted = math.ceil(self._plan.rate_per_s * self._plan.deadline_s) + self._spare
        for begun in range(0, wanted, OPENED_AT_ONCE):
            await asyncio.gather(
                *(self._connect() for _ in range(min(OPENED_AT_ONCE, wanted - begun)))
            )

    async def _connect(self) -> None:
        _, connection = await self._loop.create_connection(
            lambda: _Connection(self), self._host, self._port
        )
        self._log.connections += 1
        self._free(connection)

    async def _connect_another(self) -> None:
        try:
            await self._connect()
        except OSError:
            if self._waiting:
                self._end(self._waiting.popleft(), BROKEN)

    def _close(self) -> None:
        self._alarm.close()
        for task in self._opening:
            task.cancel()
        for connection in self._idle:
            connection.given_up = True
            connection.transport.abort()

    def _now_s(self) -> float:
        return time.monotonic() - self._start_s

    def _send_due(self) -> None:
        while self._next < len(self._moments):
            if self._moments[self._next] > self._now_s():
                self._alarm.set(self._start_s + self._moments[self._next])
                return
            number = self._next
            self._next += 1
            self._log.begin(number, self._now_s())
            if self._idle:
                self._carry(self._idle.pop(), number)
            else:
                self._log.waited += 1
                self._under_way[number] = None
                self._waiting.append(number)
            while len(self._idle) + len(self._opening) - len(self._waiting) < self._spare:
                task = self._loop.create_task(self._connect_another())
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)

    def _carry(self, connection: _Connection, number: int) -> None:
        connection.number = number
        self._under_way[number] = connection
        connection.transport.write(self._request)

    def _free(self, connection: _Connection) -> None:
        if self._waiting:
            self._carry(connection, self._waiting.popleft())
        else:
            self._idle.append(connection)

    def _end(self, number: int, status: int) -> None:
        self._log.end(number, status, self._now_s())
        del self._under_way[number]
        if not self._under_way and self._next == len(self._moments):
            self._done.set()

    def answered(self, connection: _Connection, answer: Answer) -> None:
        """A complete answer came."""
        number, connection.number = connection.number, _IDLE
        if number == _IDLE:
            # To no request: a server that tires of waiting for one, and closes.
            return
        self._end(number, answer.status)
        if answer.closes:
            connection.transport.close()
        else:
            self._free(connection)

    def misread(self, connection: _Connection, why: str) -> None:
        """What came is no answer."""
        self._log.unreadable = why
        connection.transport.abort()

    def lost(self, connection: _Connection) -> None:
        """The connection has ended, and with it what it carried."""
        if connection.given_up:
            return
        self._log.closed_by_server += 1
        if connection.number != _IDLE:
            self._end(connection.number, BROKEN)
        elif connection in self._idle:
            self._idle.remove(connection)

    def _look_for_impatient(self) -> None:
        since_s = self._now_s() - self._plan.patience_s
        for number in [each for each in self._under_way if self._moments[each] < since_s]:
            self._abandon(number)
        if not self._done.is_set():
            self._loop.call_later(PATIENCE_LOOK_S, self._look_for_impatient)

    def _abandon(self, number: int) -> None:
        connection = self._under_way[number]
        if connection is None:
            self._waiting.remove(number)
        else:
            connection.given_up = True
            connection.transport.abort()
        self._end(number, ABANDONED)


def encode(url: SplitResult, headers: Sequence[str], body: bytes) -> bytes:
    """One POST as bytes. `headers` are lines such as `A: b`."""
    path = url.path or "/"
    lines = [f"POST {path}?{url.query} HTTP/1.1" if url.query else f"POST {path} HTTP/1.1"]
    lines += [f"Host: {url.netloc}", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def _run(url: SplitResult, request: bytes, plan: Plan) -> Figures:
    return await Generator(url.hostname or "", url.port or 80, request, plan).run()


def main() -> int:
    """Read the command line, measure and print."""
    arguments = _parser().parse_args()
    request = encode(arguments.url, arguments.header, arguments.body)
    plan = Plan(
        rate_per_s=arguments.rate,
        seconds=arguments.seconds,
        deadline_s=arguments.deadline_ms / 1e3,
        seed=arguments.seed,
        warm_up_s=arguments.warm_up,
    )
    # A collection would be a pause of its own in what is measured.
    gc.disable()
    try:
        figures = uvloop.run(_run(arguments.url, request, plan))
    except OSError as error:
        print(f"{arguments.url.geturl()}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(figures), indent=2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.poisson",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", type=_url, required=True, help="http://HOST:PORT/PATH")
    parser.add_argument("--rate", type=_positive, required=True, help="requests a second")
    parser.add_argument("--seconds", type=_positive, default=5.0, help="of what counts (5)")
    parser.add_argument("--warm-up", type=_not_negative, default=1.0, help="seconds before (1)")
    parser.add_argument("--deadline-ms", type=_positive, required=True, help="wanted within this")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    parser.add_argument("--body", type=_body, required=True, metavar="FILE", help="what is posted")
    parser.add_argument(
        "--header", action="append", default=[], type=_header, metavar="'NAME: VALUE'"
    )
    return parser


def _url(text: str) -> SplitResult:
    url = urlsplit(text)
    if url.scheme != "http" or not url.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is no http://HOST:PORT/PATH")
    return url


def _header(text: str) -> str:
    name, colon, value = text.partition(":")
    if not (name and colon and text.isprintable()):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME: VALUE")
    return f"{name}: {value.strip()}"


def _body(text: str) -> bytes:
    try:
        return Path(text).read_bytes()
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def _not_negative(text: str) -> float:
    return 0.0 if float(text) == 0 else _positive(text)


if __name__ == "__main__":
    sys.exit(main())
