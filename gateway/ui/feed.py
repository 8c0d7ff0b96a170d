"""What the page `/ui` draws, as server-sent events: one question a second to the broker, whatever
the number of pages, and none while there is no page.

    event: state
    data: {"gateway": {…}, "broker": {…}}      `broker` is null while none answers
"""

from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, Report
from gateway.admin import CHALLENGE, Guard
from gateway.body import Body
from gateway.connection import Connection
from gateway.head import Head
from gateway.memory import Stored, UploadMemory
from gateway.pages import Page
from gateway.problems import problem, refusal
from gateway.questions import PATIENCE_S
from gateway.responses import Heads
from gateway.streams import EVENTS_TYPE
from gateway.ui.slowest import SlowRequest

STEP_S = 1.0
MOST_VIEWERS = 64
_ALL = msgspec.json.encode({"points": 300, "events": 200})
_LATEST = msgspec.json.encode({"points": 5, "events": 30})
"""A page that has come gets the past; those that were there have it."""


class GatewayState(Struct, frozen=True):
    """How this gateway is. `statuses` counts its answers by pipeline and status since it began."""

    pid: int
    host: str
    uptime_s: float
    broker_up: bool
    trouble: str
    draining: bool
    requests_per_s: float
    connections: int
    waiting: int
    lag_ms: float
    viewers: int
    statuses: list[tuple[str, int, int]]
    slowest: list[SlowRequest]


class Asker(Protocol):
    """The way to the broker."""

    def ask(
        self, what: str, body: bytes, answered: Callable[[Report | None], None], due: float
    ) -> bool:
        """See `admin_call.Asker`."""


Send = Callable[[Connection, Head, Page, str], None]


class Feed:
    """All pages that are open at this gateway."""

    def __init__(
        self,
        *,
        guard: Guard,
        is_unix: bool,
        asker: Asker,
        memory: UploadMemory,
        send: Send,
        state: Callable[[float, int], GatewayState],
    ) -> None:
        """`state` is asked how this gateway is, with the time and the number of pages."""
        self._guard = guard
        self._is_unix = is_unix
        self._asker = asker
        self._memory = memory
        self._send = send
        self._state = state
        self._viewers: dict[Viewer, None] = {}
        self._has_new = False  # a page that has seen nothing yet
        self._due = 0.0
        self._asking = False

    def open(
        self, connection: Connection, head: Head, heads: Heads, request_id: str
    ) -> "Viewer | None":
        """A page wants it; None where it has been told why not."""
        failure = self._guard.objection(head.headers, None if self._is_unix else connection.peer)
        if failure is None and len(self._viewers) >= MOST_VIEWERS:
            failure = refusal(ErrorCode.OVERLOADED, f"{MOST_VIEWERS} pages are open")
        if failure is not None:
            self._send(connection, head, _refused(failure, request_id), request_id)
            return None
        begin = heads.stream(EVENTS_TYPE, request_id, "", "")
        return Viewer(self, connection, begin, self._memory)

    def join(self, viewer: "Viewer") -> None:
        """A page listens from now on."""
        self._viewers[viewer] = None
        self._has_new = True
        self._due = 0.0

    def leave(self, viewer: "Viewer") -> None:
        """It has gone."""
        self._viewers.pop(viewer, None)

    def tick(self, now: float) -> None:
        """A few times a second."""
        if not self._viewers or self._asking or now < self._due:
            return
        self._due = max(self._due + STEP_S, now + STEP_S / 2)
        body = _ALL if self._has_new else _LATEST
        self._has_new = False
        self._asking = True
        gateway = msgspec.json.encode(self._state(now, len(self._viewers)))

        def answered(report: Report | None) -> None:
            self._asking = False
            broker = report.body if report is not None and not report.code else b"null"
            data = b'event: state\ndata: {"gateway":%b,"broker":%b}\n\n' % (gateway, broker)
            for viewer in list(self._viewers):
                viewer.show(data)

        if not self._asker.ask("status", body, answered, now + PATIENCE_S):
            answered(None)

    def close(self) -> None:
        """The gateway leaves."""
        for viewer in list(self._viewers):
            viewer.end()


class Viewer:
    """One open page; see `connection.Call`."""

    __slots__ = ("_begin", "_connection", "_feed", "_memory", "due")

    def __init__(
        self, feed: Feed, connection: Connection, begin: bytes, memory: UploadMemory
    ) -> None:
        self.due = float("inf")
        self._feed = feed
        self._connection = connection
        self._begin = begin
        self._memory = memory

    def show(self, data: bytes) -> None:
        """The next event; nothing for a page that has not read the last ones."""
        if not self._connection.is_write_paused:
            self._connection.part(data)

    def end(self) -> None:
        """There will be no more."""
        self._feed.leave(self)
        self._connection.finish(close=True)

    # -------------------------------------------------------------- what the connection calls

    def grow(self, size_bytes: int) -> bool:
        """See `connection.Call`, as for all below. A body means nothing here."""
        return True

    def body(self) -> Body:
        return Body(self._memory, 0)

    def run_whole(self, body: bytes) -> None:
        self._connection.begin_privately(self._begin)
        self._feed.join(self)

    def run(self, body: bytes | Stored) -> None:
        self.run_whole(b"")

    def late(self, now: float) -> None:
        self._connection.abort()

    def fail(self, code: ErrorCode, message: str) -> None:
        self.end()

    def drained(self) -> None:
        """What comes next is newer than what was left out."""

    def gone(self) -> None:
        self._feed.leave(self)


def _refused(failure: Failure, request_id: str) -> Page:
    extra = CHALLENGE if failure.code == ErrorCode.UNAUTHORIZED else ""
    said = problem(failure, request_id, extra)
    return Page(said.status, "application/json", said.body, said.extra)
