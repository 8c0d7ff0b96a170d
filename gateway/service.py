"""What the gateway does with a request's head, and with what the table settles.

Routes, checks headers, makes calls; `own_answers.py` has the rest. Owns no socket: connections
bring requests in, and `wake` lets the link send what the table has to say.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from broker.wire import log
from broker.wire.errors import ErrorCode
from broker.wire.frames import Buffer, refs_of
from broker.wire.messages import Answers, Failure, Payload, Traces, Value
from gateway import deflate, headers
from gateway.admin_call import AdminCall
from gateway.asker import BrokerAsker
from gateway.asking import Asking
from gateway.books import Books
from gateway.call import INLINE_BYTES, Call
from gateway.catalog import DEFAULT_TIMEOUT_S, CatalogView, PipelineView
from gateway.connection import Connection
from gateway.dialect import Dialect
from gateway.dialects import asked_version, dialect_of, oip_of
from gateway.documents import NoSuch
from gateway.head import Head, KnownHeads
from gateway.journal import Journal
from gateway.memory import UploadMemory
from gateway.metrics import Metrics
from gateway.mosec import routes as mosec_routes
from gateway.mosec.site import Site
from gateway.options import MEBIBYTE, GatewayOptions
from gateway.own_answers import OwnAnswers
from gateway.pages import Pages
from gateway.pending import PendingTable, Settled
from gateway.problems import refusal
from gateway.request import Request
from gateway.responses import Heads
from gateway.routes import Kind, Route, find
from gateway.tracing import Trace
from gateway.ui.feed import GatewayState, Viewer
from gateway.ui.pulse import Pulse

HTTP = "http"
"""The protocol, as traces name it."""
THREADS = 2
"""For what would keep the loop too long: large bodies to inflate, large JSON to read or write."""

Result = TypeVar("Result")


class Service:
    """See the module."""

    def __init__(
        self,
        options: GatewayOptions,
        *,
        table: PendingTable[Request],
        memory: UploadMemory,
        pages: Pages,
        metrics: Metrics,
        journal: Journal,
        connections: set[Connection],
        streaming: set[Request],
        max_connections: int,
        wake: Callable[[float], None],
    ) -> None:
        self.table = table
        self.memory = memory
        self.connections = connections
        self.max_connections = max_connections
        self.wake = wake
        """To be called after each change to the table, with the deadline to keep."""
        self.streaming = streaming
        """Those that are answered value by value."""
        self.heads = Heads(time.time())
        self.known_heads = KnownHeads()
        self.draining = False
        self.newest_s = time.monotonic()
        """When the latest client has connected."""
        self.max_body_bytes = options.max_body_bytes
        self.easy_bytes = min(INLINE_BYTES, options.max_body_bytes)
        """A body up to this size is accepted without a question."""
        self.compress_bytes = options.compress_bytes
        self.too_large = f"the body is larger than {_size(options.max_body_bytes)}"
        self.pages = pages
        self._metrics = metrics
        self.books = Books(metrics, journal, memory)
        self._view: CatalogView | None = None
        self._targets: dict[str | None, PipelineView] = {}  # of requests for inference; of _view
        self.asker = BrokerAsker(table, wake)
        self.own = OwnAnswers(
            options,
            heads=self.heads,
            pages=pages,
            metrics=metrics,
            journal=journal,
            memory=memory,
            asker=self.asker,
            state=self._state,
            new_id=self.new_id,
        )
        self._pulse = Pulse(time.monotonic())
        self.until_traced: int | None = None
        """So many requests come before the next one that is chosen, where any may be."""
        self.told: Callable[[Answers | Traces], None] | None = None
        """Of what the broker tells of traced requests, where there can be any."""
        self.mosec = Site(time.time())
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="gateway")
        self._host = socket.gethostname()
        self._id_prefix = os.urandom(6).hex()
        self._id_count = 0

    @property
    def view(self) -> CatalogView | None:
        """What is served, once a broker has said so."""
        return self._view

    # -------------------------------------------------------------- heads

    def open(
        self, connection: Connection, head: Head, now: float
    ) -> Call | Asking | AdminCall | Viewer | None:
        """See `connection.Service`."""
        view = self._targets.get(head.target)
        if view is not None:
            return self._open_call(connection, head, now, view=view, name=view.name)
        if self._view is not None and (view := self._view.models.get(head.target)) is not None:
            return self._open_model(connection, head, now, view)
        if self._view is not None and (view := self._view.mosec.get(head.target)) is not None:
            return mosec_routes.open_call(self, connection, head, now, view)
        if head.is_spoken:
            if self._view is not None and self._view.mosec:
                found, call = mosec_routes.find(self, self._view, connection, head, now)
                if found:
                    return call
            return self._route(connection, head, now)
        self.misread(connection, ErrorCode.BAD_REQUEST, "this is an HTTP/1.1 server")
        return None

    def _route(
        self, connection: Connection, head: Head, now: float
    ) -> Call | Asking | AdminCall | Viewer | None:
        path = head.path
        route = find(head.method, path if path[:1] == "/" else head.message.url.raw_path_qs)
        catalog = self._view
        view = None
        if route.kind is Kind.RUN:
            name = headers.clean(route.name)
            if catalog is not None and (view := catalog.pipelines.get(name)) is None:
                self._refuse_head(connection, head, now, self.pages.unknown(name))
                return None
        elif route.kind is Kind.INFER:
            return self._open_dialect(connection, head, now, route)
        elif route.oip is not None or route.admin is not None or route.kind is Kind.UI_EVENTS:
            return self.own.open(connection, head, now, route)
        elif route.kind is Kind.RUN_ONLY:
            if catalog is not None and (view := catalog.single) is None:
                self._refuse_head(connection, head, now, self._not_single())
                return None
            name = view.name if view is not None else ""
        else:
            self.own.answer(connection, head, route)
            return None
        version = headers.clean(route.version)
        if version and view is not None:
            version = view.version_of(version)
        return self._open_call(connection, head, now, view=view, name=name, version=version)

    def _open_model(
        self, connection: Connection, head: Head, now: float, view: PipelineView
    ) -> Call | None:
        """The Open Inference Protocol, without a search for its route."""
        dialect = oip_of(view, head.headers)
        return self._open_call(connection, head, now, view=view, name=view.name, dialect=dialect)

    def _open_dialect(
        self, connection: Connection, head: Head, now: float, route: Route
    ) -> Call | None:
        """The same call as any other, in another dialect."""
        if self._view is None:
            self.own.answer(connection, head, route)
            return None
        name = headers.clean(route.name)
        view = self._view.pipelines.get(name)
        dialect = dialect_of(route, view, head.headers, self.compress_bytes)
        if view is None:
            failure = self.pages.unknown(name)
            self._refuse_head(connection, head, now, failure, dialect)
            return None
        try:
            version = asked_version(route, view)
        except NoSuch as error:
            failure = refusal(ErrorCode.UNKNOWN_VERSION, str(error))
            self._refuse_head(connection, head, now, failure, dialect)
            return None
        return self._open_call(
            connection, head, now, view=view, name=name, version=version, dialect=dialect
        )

    def _not_single(self) -> Failure:
        served = ", ".join(self._view.pipelines) if self._view is not None else ""
        return refusal(
            ErrorCode.NOT_FOUND,
            f"/inference needs exactly one pipeline; served: {served or 'none'}",
        )

    def _open_call(
        self,
        connection: Connection,
        head: Head,
        now: float,
        *,
        view: PipelineView | None,
        name: str,
        version: str = "",
        dialect: Dialect | None = None,
    ) -> Call | None:
        trace = None
        left = self.until_traced  # a draw would be paid by each
        if left is not None:
            self.until_traced = left - 1
            if not left or head.traceparent:
                trace = self.begin_trace(
                    head.traceparent, head.tracestate, HTTP, connection.peer, now, not left
                )
        call = Call(
            self,
            now,
            head.request_id or self.new_id(),
            self.table.bounds.of(name),
            connection.peer_number if head.client is None else head.client,
            head.priority,
            name,
            version,
            view,
            dialect,
            connection,
            head,
        )
        if trace is not None:
            call.trace = trace
        if head.bad:
            call.fail(ErrorCode.BAD_HEADER, head.bad)
            return None
        self.set_due(call)
        lack = view.lack_of_tensors() if view is not None and dialect is not None else None
        if lack is not None:
            call.refuse(lack)
            return None
        is_easy = head.unmet is None and head.size_bytes <= self.easy_bytes and not self.draining
        return call if is_easy or self.accepts(call, head) else None

    def set_due(self, call: Request) -> None:
        """By when its client is to have an answer."""
        timeout_s = call.view.timeout_s if call.view is not None else DEFAULT_TIMEOUT_S
        call.due = call.arrived_s + (min(timeout_s, call.asked_s) if call.asked_s else timeout_s)

    def accepts(self, call: Call, head: Head) -> bool:
        """Refuse, before its body is read, what the head already rules out."""
        if self.draining:
            call.fail(ErrorCode.DRAINING, "this gateway is shutting down")
            return False
        if head.unmet is not None:
            call.fail(*head.unmet)
            return False
        size_bytes = head.size_bytes
        if size_bytes > self.max_body_bytes:
            call.fail(ErrorCode.BODY_TOO_LARGE, self.too_large)
            return False
        if size_bytes > INLINE_BYTES and not call.bounds.fits(size_bytes, up=self.table.up):
            call.fail(ErrorCode.QUEUE_FULL, "too much waits for this pipeline")
            return False
        return True

    def request_id(self, head: Head) -> str:
        """The client's own, or a new one."""
        return head.request_id or self.new_id()

    def new_id(self) -> str:
        """For a request whose client gives it none."""
        self._id_count += 1
        return f"{self._id_prefix}{self._id_count:x}"

    def _refuse_head(
        self,
        connection: Connection,
        head: Head,
        now: float,
        failure: Failure,
        dialect: Dialect | None = None,
    ) -> None:
        """A request for inference that names no pipeline that exists."""
        bounds = self.table.bounds.of("")
        request_id = self.request_id(head)
        call = Call(self, now, request_id, bounds, 0, 1, "", "", None, dialect, connection, head)
        call.trace = self.begin_trace_of(head, connection, now)
        call.refuse(failure)

    def misread(self, connection: Connection, code: ErrorCode, message: str) -> None:
        """See `connection.Service`."""
        self.own.misread(connection, code, message)

    def turn_away(self, connection: Connection) -> None:
        """See `connection.Service`."""
        self.own.turn_away(connection)

    # -------------------------------------------------------------- what calls need

    def run_in_thread(
        self, work: Callable[[], Result], done: Callable[["asyncio.Future[Result]"], None]
    ) -> None:
        """Do slow work off the loop; `done` is called with the finished future."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(done)

    def compress(
        self,
        body: Buffer | list[Buffer],
        size_bytes: int,
        coding: deflate.Coding,
        done: Callable[[bytes], None],
    ) -> None:
        """Compress an answer, a large one off the loop; `done` is called with it."""
        if size_bytes <= deflate.INLINE_BYTES:
            done(coding.compress(body))
            return
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._pool, coding.compress, body)
        future.add_done_callback(lambda ended: None if ended.cancelled() else done(ended.result()))

    def forget(self, seq: int) -> None:
        """The client of a call does not wait any longer."""
        self.table.cancel(seq)
        self.wake(float("inf"))

    def credit(self, seq: int, values: int) -> None:
        """The client of a call has taken so many values, from the first one on."""
        self.table.credit(seq, values)
        self.wake(float("inf"))

    def drop(self, payload: Payload) -> None:
        """This body goes nowhere: give back its shared memory, if it has any."""
        self.memory.drop(refs_of(payload))

    # -------------------------------------------------------------- traces: `traced.py` has some

    def begin_trace_of(self, head: Head, connection: Connection, now: float) -> Trace | None:
        """The trace of a request that has come with this head; None where it has none."""
        return self.begin_trace(head.traceparent, head.tracestate, HTTP, connection.peer, now)

    def begin_trace(  # noqa: PLR0917  # keywords cost
        self,
        traceparent: str,
        tracestate: str,
        protocol: str,
        client: str,
        now: float,
        is_chosen: bool | None = None,
    ) -> Trace | None:
        """Likewise of one that has come otherwise; there are none here. `is_chosen` where that is
        known.
        """
        return None

    # -------------------------------------------------------------- what the table brings

    def deliver(self, settled: Iterable[Settled[Request]]) -> None:
        """Answer the clients."""
        for call, answer, item in settled:
            try:
                call.settle(answer, item)
            except Exception:  # a bug: loud, but the other clients get their answers
                log.bug("answer_failed", request_id=call.request_id)
                call.abort()

    def stream(self, streamed: Iterable[tuple[Request, Value]]) -> None:
        """Pass values on to the clients."""
        for call, value in streamed:
            try:
                call.stream(value)
            except Exception:  # as above
                log.bug("stream_failed", request_id=call.request_id)
                call.abort()

    def catalog_changed(self) -> None:
        """The table has a new catalog. The first one gives homes to what came in before it."""
        catalog = self.table.catalog
        if catalog is None:
            return
        first = self._view is None
        self._view = self.pages.view = CatalogView(catalog, self._view)
        self._targets = self._view.targets
        if first:
            for call, item in self.table.take_homeless():
                self._find_home(call, item.payload)

    def _find_home(self, call: Request, payload: Payload) -> None:
        if self._view is None:
            return
        call.seq = 0
        view = self._view.pipelines.get(call.name) if call.name else self._view.single
        if view is None:
            self.drop(payload)
            call.refuse(self.pages.unknown(call.name) if call.name else self._not_single())
            return
        call.view = view
        call.name = view.name
        call.version = view.version_of(call.version)
        call.bounds = self.table.bounds.of(view.name)
        self.set_due(call)
        call.submit_again(payload)

    # -------------------------------------------------------------- time and the end

    def tick(self, now: float) -> None:
        """A few times a second."""
        wall_s = time.time()
        self.heads.renew(wall_s)
        self.mosec.heads.renew(wall_s)
        self.books.tick(now)
        log.flush()
        self.memory.tick(now)
        self.asker.tick(now)
        self._pulse.tick(self._metrics.total(), now)
        self.own.feed.tick(now)
        if self.memory.overflowed():
            self.table.ask_claims()
        for connection in list(self.connections):
            connection.check_due(now)
        for call in self.streaming:
            call.tick(now)

    def lagged(self, late_s: float) -> None:
        """The loop came so much later than it should have, at one moment."""
        self._pulse.lagged(late_s)

    def _state(self, now: float, viewers: int) -> GatewayState:
        pulse = self._pulse
        return GatewayState(
            pid=os.getpid(),
            host=self._host,
            uptime_s=round(now - pulse.began, 3),
            broker_up=self.table.up,
            trouble=self.table.trouble(now),
            draining=self.draining,
            requests_per_s=pulse.per_s,
            connections=len(self.connections),
            waiting=len(self.table),
            lag_ms=pulse.take_lag_ms(),
            viewers=viewers,
            statuses=self._metrics.statuses(),
            slowest=self.books.slowest(),
        )

    def drain(self) -> None:
        """No new request from now on; each answer ends its connection."""
        self.draining = self.pages.draining = True
        self.own.feed.close()
        self.deliver(self.table.drain())

    def abandon(self) -> None:
        """Answer whatever is still owed with 503 `draining`."""
        self.deliver(self.table.abandon())
        for connection in list(self.connections):
            connection.abandon()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _size(size_bytes: int) -> str:
    mebibytes, rest = divmod(size_bytes, MEBIBYTE)
    return f"{size_bytes} bytes" if rest else f"{mebibytes} MiB"
