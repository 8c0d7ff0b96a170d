"""A load generator for tests: clients that keep their connections, and count what becomes of each
request.

Every client sends one request after the other, and every answer must name its request. The clients
are bare protocols on an event loop in a thread of its own, so that a test goes on with its fault in
the meantime; what they saw is read once they have stopped.
"""

import asyncio
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast

import msgspec

PATIENCE_S = 13.0
"""For the last answers: the deadline of a pipeline that names none, and some."""
FLOW_S = 40.0
"""For some thousands of answers, on a machine that is busy."""
CONNECT_AGAIN_S = 0.02


class Reply(msgspec.Struct):
    """What the body of an answer says: the number of its request, or an error."""

    n: int = -1
    stages: int = 0
    error: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and what came back. `code` is the error's, "" for a result."""

    number: int
    port: int
    status: int
    code: str
    sent_s: float
    latency_s: float


@dataclass
class Report:
    """What all clients saw. Numbers are those of requests."""

    answers: list[Answer] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Answers that belong to another request, or are none."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """(number, port) of requests whose connection ended without an answer."""
    unanswered: list[int] = field(default_factory=list)
    """Those that still waited when patience ended."""
    ends: int = 0
    """Connections that ended between two requests, though no answer had said so."""

    def count(self) -> Counter[str]:
        """How many answers of each kind, such as {"200": 512, "503 draining": 3}."""
        return Counter(f"{each.status} {each.code}".rstrip() for each in self.answers)

    def slowest_s(self) -> float:
        """The longest that any client had to wait for an answer."""
        return max((answer.latency_s for answer in self.answers), default=0.0)

    def check(self, *, lost_at: Sequence[int] = (), allowed: Sequence[str] = ()) -> None:
        """AssertionError unless every request got its own answer, with 200.

        `lost_at` are the ports of gateways that were killed, whose clients may have lost one.
        `allowed` are further kinds of answers, as `count` names them.
        """
        assert not self.wrong, self.wrong[:5]
        assert not self.unanswered, f"unanswered: {self.unanswered}"
        lost = [each for each in self.lost if each[1] not in lost_at]
        assert not lost, f"lost (number, port): {lost}"
        assert lost_at or not self.ends, f"{self.ends} connections ended without a word"
        kinds = self.count()
        assert set(kinds) <= {"200", *allowed}, f"{kinds}; first: {self._first_bad(allowed)}"
        assert self.answers

    def _first_bad(self, allowed: Sequence[str]) -> list[Answer]:
        good = {"200", *allowed}
        return [a for a in self.answers if f"{a.status} {a.code}".rstrip() not in good][:3]


class Load:
    """Clients that load gateways until told to stop. A context manager: it stops at its end."""

    def __init__(
        self,
        ports: Sequence[int],
        path: str,
        *,
        clients: int = 32,
        requests: int | None = None,
        body: Callable[[int], bytes] = lambda number: b'{"n":%d}' % number,
        stages: int = 3,
        timeout_ms: int | None = None,
    ) -> None:
        """Client i begins at the i-th of `ports`, in turn, and moves on where nobody listens.

        `requests`: how many to send in all; None: until stopped. `stages`: how many every result
        must have passed. `timeout_ms`: the deadline that requests bring.
        """
        self.report = Report()
        self.ports = ports
        self.stages = stages
        deadline = "" if timeout_ms is None else f"X-Timeout-Ms: {timeout_ms}\r\n"
        self.head = f"POST {path} HTTP/1.1\r\nHost: test\r\n{deadline}".encode()
        self.body = body
        self.paused = False
        self.idle: deque[_Client] = deque()
        self._numbers = iter(range(requests)) if requests is not None else itertools.count()
        self._clients = [_Client(self, index) for index in range(clients)]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.is_stopping = False
        self._finished = asyncio.Event()
        self._target = 0
        self._reached = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # -------------------------------------------------------------- for the test

    def flow(self, answers: int, *, at_least_s: float = 0.0, within_s: float = FLOW_S) -> None:
        """Until so many more answers have come, and so long; AssertionError where they do not."""
        end = time.monotonic() + at_least_s
        self._reached.clear()
        self._target = len(self.report.answers) + answers
        if not self._reached.wait(within_s):
            missing = self._target - len(self.report.answers)
            raise AssertionError(f"{missing} of {answers} answers did not come in {within_s} s")
        time.sleep(max(0.0, end - time.monotonic()))

    def pause(self) -> None:
        """No further requests for now; what is sent is still answered."""
        self._loop.call_soon_threadsafe(setattr, self, "paused", True)

    def resume(self) -> None:
        """The reverse of `pause`."""
        self._loop.call_soon_threadsafe(self._resume)

    def stop(self) -> Report:
        """Send no more, wait for what is owed, and end all connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join(PATIENCE_S + 2.0)
            assert not self._thread.is_alive()
        return self.report

    def join(self) -> Report:
        """Until all `requests` have their answers, or nothing has come of them in time."""
        self._thread.join(PATIENCE_S + 2.0)
        return self.stop()

    # -------------------------------------------------------------- for the clients

    def next_number(self) -> int | None:
        """The number of a client's next request; None: it has to send no more."""
        if self.is_stopping:
            return None
        return next(self._numbers, None)

    def answered(self, answer: Answer) -> None:
        """A client has an answer."""
        self.report.answers.append(answer)
        if len(self.report.answers) == self._target:
            self._reached.set()

    def done(self) -> None:
        """A client is done for good."""
        if all(client.is_done for client in self._clients):
            self._finished.set()

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        self._loop.run_until_complete(self._live())
        self._loop.close()

    async def _live(self) -> None:
        for client in self._clients:
            client.begin()
        try:
            async with asyncio.timeout(None) as self._patience:
                if self.is_stopping:
                    self._be_patient()
                await self._finished.wait()
        except TimeoutError:
            self.report.unanswered = [c.number for c in self._clients if c.number is not None]
        for client in self._clients:
            client.end()

    def _stop(self) -> None:
        self.is_stopping = True
        self._be_patient()
        self._resume()

    def _be_patient(self) -> None:
        self._patience.reschedule(self._loop.time() + PATIENCE_S)

    def _resume(self) -> None:
        self.paused = False
        while self.idle:
            self.idle.popleft().send_next()


class _Client(asyncio.Protocol):
    """One client, and the connection that it has at present."""

    def __init__(self, load: Load, index: int) -> None:
        self.number: int | None = None
        """Of the request that waits for its answer."""
        self.is_done = False
        self._load = load
        self._at = index
        self._port = 0
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._was_told = False  # that the gateway ends this connection
        self._sent_s = 0.0
        self._connecting: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Connect, then send."""
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def end(self) -> None:
        """Close the connection; what it still receives does not count."""
        self.is_done = True
        self.number = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        ports = self._load.ports
        while not self.is_done:
            self._port = ports[self._at % len(ports)]
            try:
                await loop.create_connection(lambda: self, "127.0.0.1", self._port)
            except OSError:
                if self._load.is_stopping:
                    self._finish()
                    return
                self._at += 1
                await asyncio.sleep(CONNECT_AGAIN_S)
            else:
                return

    def send_next(self) -> None:
        """The next request, or an end where there is none. A paused load lets it wait."""
        load = self._load
        if load.paused:
            load.idle.append(self)
            return
        if self._transport is None or self.number is not None:
            return  # it sends once it is connected again, or has done so
        number = load.next_number()
        if number is None:
            self._finish()
            return
        self.number = number
        self._sent_s = time.monotonic()
        body = load.body(number)
        self._transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (load.head, len(body), body))

    def _finish(self) -> None:
        self.is_done = True
        self._load.done()

    # -------------------------------------------------------------- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._received = b""
        self._was_told = False
        self.send_next()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found or self.number is None:
            return
        lines = head.lower().split(b"\r\n")
        size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        if len(rest) < size:
            return
        self._received = b""
        self._take(int(head[9:12]), rest)
        if b"connection: close" in lines and self._transport is not None:
            self._was_told = True
            self._transport.close()  # and `connection_lost` begins anew
        else:
            self.send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.is_done:
            return
        if self.number is None:
            self._load.report.ends += not self._was_told
        else:
            self._load.report.lost.append((self.number, self._port))
            self.number = None
        self.begin()

    def _take(self, status: int, body: bytes) -> None:
        number, self.number = self.number, None
        assert number is not None
        latency_s = time.monotonic() - self._sent_s
        try:
            reply = msgspec.json.decode(body, type=Reply)
        except msgspec.MsgspecError:
            self._load.report.wrong.append(f"{number}: {status} {body[:80]!r}")
            return
        if status == 200 and (reply.n, reply.stages) != (number, self._load.stages):
            self._load.report.wrong.append(f"{number}: {status} {body[:80]!r}")
        code = reply.error.get("code", "")
        self._load.answered(Answer(number, self._port, status, code, self._sent_s, latency_s))
