"""One HTTP/1.x connection: bytes to requests, answers to bytes, in order, one at a time.

Framing, deadlines of heads and bodies, keep-alive, pipelining, `Expect`, hang-ups and lingering
closes are here. It knows nothing of pipelines or the broker: a `Service` decides on each head, and
gets the body through the `Call` that it returned.

aiohttp's own request handler runs a task and a stream reader for each request, which costs more
than all the rest of the gateway does; so this protocol drives aiohttp's parser directly. The parser
is made to stop after each message, so that what is pipelined behind a request waits unparsed. It is
not asked at all where a head that is known came with its whole body and nothing more (`head.py`).
"""

import asyncio
import contextlib
import time
from typing import Final, Protocol, cast

from broker.wire.errors import ErrorCode
from broker.wire.frames import Buffer
from gateway.body import Body
from gateway.head import BLANK_LINE, Head, KnownHeads
from gateway.headers import client_number
from gateway.memory import Stored
from gateway.options import GatewayOptions
from gateway.parser import (
    HttpProcessingError,
    HttpRequestParser,
    HttpVersion10,
    HttpVersion11,
    LineTooLong,
    RawRequestMessage,
    StreamReader,
)

LINGER_S = 10.0
"""After an answer that came before its request had ended: how long the rest is read and dropped, so
that the client is not reset before it has read the answer."""
SHORT_LINGER_S = 1.0
"""The same where the client broke the rules."""
HALF_CLOSE_GRACE_S = 0.1
"""A client that ends its side may have hung up or may wait for its answer, which look alike; for
this long it is taken to wait."""
MAX_UNPARSED_BYTES = 1 << 16
"""Of pipelined requests, before the connection is no longer read from."""
JOIN_BYTES = 1 << 16
"""Up to this size, head and body are sent as one."""
MAX_LINE_BYTES = 8190
MAX_HEADERS = 128

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_END: Final = b"\r\n"
_END_CLOSE: Final = b"Connection: close\r\n\r\n"
_END_KEEP: Final = b"Connection: keep-alive\r\n\r\n"
_NEVER: Final = float("inf")


class Call(Protocol):
    """One request for inference whose head was accepted: it wants the body, and answers later."""

    due: float
    """The request's deadline, which a slow upload uses up as well."""

    def grow(self, size_bytes: int) -> bool:
        """The body has grown to this; False: an answer was given, and the rest is not wanted."""

    def body(self) -> Body:
        """An empty one, for a body that does not come at once with its head."""

    def run_whole(self, body: bytes) -> None:
        """The body was there together with the head, and is complete: neither `body` nor `grow`
        was called.
        """

    def run(self, body: bytes | Stored) -> None:
        """The body is complete."""

    def late(self, now: float) -> None:
        """The body is not complete in time: answer."""

    def fail(self, code: ErrorCode, message: str) -> None:
        """The body cannot be read: answer."""

    def drained(self) -> None:
        """The client has read what was sent to it."""

    def gone(self) -> None:
        """The client hung up; no answer is possible any more."""


class Service(Protocol):
    """What answers requests."""

    draining: bool
    newest_s: float
    connections: "set[Connection]"
    max_connections: int
    known_heads: KnownHeads

    def open(self, connection: "Connection", head: Head, now: float) -> Call | None:
        """Decide on a head: answer it (through `connection.answer`), or return its Call."""

    def misread(self, connection: "Connection", code: ErrorCode, message: str) -> None:
        """Answer what is no request."""

    def turn_away(self, connection: "Connection") -> None:
        """Answer a connection that is one too many, before it asks anything."""


class Connection(asyncio.Protocol):
    """See the module. `service.open` and `Call.run` may call `answer` at once or later."""

    __slots__ = (
        "_body",
        "_busy",
        "_call",
        "_chunked",
        "_closing",
        "_due",
        "_fed_s",
        "_feeding",
        "_grace",
        "_head",
        "_head_begun",
        "_is_whole",
        "_known",
        "_lingering",
        "_loop",
        "_options",
        "_parser",
        "_payload",
        "_peer_done",
        "_read_paused",
        "_service",
        "_transport",
        "_unparsed",
        "_unsent_bytes",
        "_write_paused",
        "peer",
        "peer_number",
    )

    def __init__(
        self, service: Service, options: GatewayOptions, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._service = service
        self._known = service.known_heads
        self._options = options
        self._loop = loop
        self._parser = HttpRequestParser(
            self,  # type: ignore[arg-type]  # it only pauses and resumes, below
            loop,
            1 << 30,  # the parser's own flow control: never, since pieces are taken out at once
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            max_msg_queue_size=1,
        )
        self._transport: asyncio.Transport | None = None
        self._busy = False  # a request has begun and is not answered yet
        self._head: Head | None = None
        self._call: Call | None = None
        self._payload: StreamReader | None = None  # while the body is incomplete
        self._body: Body | None = None  # likewise, unless the answer did not need it
        self._unparsed = b""
        self._fed_s = 0.0  # when what is parsed now came in; 0 while nothing is left of it
        self._is_whole = False  # the request came at once, and the parser holds nothing behind it
        self._feeding = False
        self._read_paused = False
        self._head_begun = False
        self._lingering = False
        self._peer_done = False
        self._grace: asyncio.TimerHandle | None = None
        self._write_paused = False
        self._unsent_bytes = 0
        self._chunked = False  # of an answer in parts
        self._closing = False
        self._due = _NEVER
        self.peer = ""
        """The client's address; "" where it has none."""
        self.peer_number = 0
        """Stands for the client's address in fair shares."""

    # -------------------------------------------------------------- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else ""
        self.peer_number = client_number(self.peer)
        now = self._service.newest_s = time.monotonic()
        self._due = now + self._options.keep_alive_s
        connections = self._service.connections
        connections.add(self)
        if len(connections) > self._service.max_connections:
            self._parser = None  # type: ignore[assignment]  # never fed: it lingers
            self._head_begun = True  # a request is on its way, most likely
            self._service.turn_away(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._service.connections.discard(self)
        self._hang_up()
        self._parser = None  # type: ignore[assignment]  # it refers back to us

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        if not self._fed_s:
            self._fed_s = time.monotonic()
            if not (self._busy or self._head_begun or self._write_paused):
                self._feed_first(data)
                return
        if self._payload is not None or not (self._busy or self._write_paused):
            self._feed(data)
            return
        self._unparsed += data
        if len(self._unparsed) > MAX_UNPARSED_BYTES and self._transport is not None:
            self._read_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """False lets the transport close."""
        if self._lingering or not self._busy or self._payload is not None:
            self._hang_up()
            return False
        self._peer_done = True
        self._grace = self._loop.call_later(HALF_CLOSE_GRACE_S, self._close)
        return True

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._transport is not None:
            self._unsent_bytes = self._transport.get_write_buffer_size()
        self._due = time.monotonic() + self._options.body_timeout_s

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._lingering:
            self._due = time.monotonic() + LINGER_S
        elif not self._busy:
            self._due = time.monotonic() + self._options.keep_alive_s
            self._feed_unparsed()
        elif self._call is not None:
            self._call.drained()

    # -------------------------------------------------------------- what the parser calls

    def pause_reading(self) -> None:
        """Not heeded: pieces of a body are taken out as they come."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Not heeded, as above."""

    # -------------------------------------------------------------- requests in

    def _feed_first(self, data: bytes) -> None:
        """A request begins with these bytes, and the parser holds nothing."""
        end = data.find(BLANK_LINE) + len(BLANK_LINE)
        head = self._known.get(data[:end])
        if head is not None and head.size_bytes == len(data) - end:
            self._is_whole = True
            self._run(head, data[end:])
        else:
            self._feed(data, data)

    def _feed(self, data: bytes, first: bytes = b"") -> None:
        """Parse until a request has begun that is not answered at once, or the bytes are used.

        `first`: the same as `data` where a request begins with it.
        """
        self._feeding = True
        try:
            while self._parse(data, first):
                data, self._unparsed = self._unparsed, b""
                first = b""
        finally:
            self._feeding = False
        if self._peer_done and not (self._busy or self._write_paused):
            self._close()

    def _feed_unparsed(self) -> None:
        data, self._unparsed = self._unparsed, b""
        if self._read_paused and self._transport is not None:
            self._read_paused = False
            self._transport.resume_reading()
        self._feed(data)

    def _parse(self, data: bytes, first: bytes) -> bool:
        """One step; True if another request may follow in what the parser holds."""
        try:
            messages, _upgraded, _tail = self._parser.feed_data(data)
        except HttpProcessingError as error:
            self._misread(error)
            return False
        if messages:
            message, payload = messages[0]
            self._begin(message, payload, first)
        elif self._payload is not None:
            self._take_body()
        else:
            self._fed_s = 0.0
            if data and not self._head_begun:
                self._head_begun = True
                self._due = time.monotonic() + self._options.header_timeout_s
            return False
        return not (self._busy or self._lingering or self._write_paused or self._transport is None)

    def _begin(self, message: RawRequestMessage, payload: StreamReader, first: bytes) -> None:
        self._head_begun = False
        head = Head(message)
        if payload.is_eof():
            body = payload.read_nowait()
            self._is_whole = self._known.keep(first, head, body)
            self._run(head, body)
            return
        self._is_whole = False
        self._payload = payload
        call = self._open(head)
        if call is None:
            return
        self._due = min(time.monotonic() + self._options.body_timeout_s, call.due)
        coming = self._body = call.body()
        self._take_body()
        if self._payload is not None and not coming.size_bytes and head.expects_continue:
            self._write(_CONTINUE)

    def _run(self, head: Head, body: bytes) -> None:
        """A request is there with its whole body."""
        call = self._open(head)
        if call is not None:
            call.run_whole(body)

    def _open(self, head: Head) -> Call | None:
        self._busy = True
        self._head = head
        self._due = _NEVER
        call = self._call = self._service.open(self, head, self._fed_s)
        return call

    def _take_body(self) -> None:
        payload, call, body = self._payload, self._call, self._body
        if payload is None or call is None or body is None:
            return
        piece = payload.read_nowait()
        if piece:
            if not call.grow(body.size_bytes + len(piece)):
                return
            body.add(piece)
        if payload.is_eof():
            self._payload = self._body = None
            self._due = _NEVER
            call.run(body.finish())

    def _drop_body(self) -> None:
        self._payload = None
        body, self._body = self._body, None
        if body is not None:
            body.drop()

    def _misread(self, error: HttpProcessingError) -> None:
        """The parser gave up: nothing after this can be understood, so the connection ends."""
        self._parser = None  # type: ignore[assignment]  # never fed again: it lingers or closes
        text = error.message.partition("\n")[0].rstrip(":")
        too_large = isinstance(error, LineTooLong) or text == "Too many headers received"
        code = ErrorCode.HEADERS_TOO_LARGE if too_large else ErrorCode.BAD_REQUEST
        if isinstance(error, LineTooLong):
            text = f"the request line or a header is longer than {MAX_LINE_BYTES} bytes"
        call = self._call
        self._head_begun = True  # whatever the answer, the connection is not kept
        if call is not None:
            call.fail(code, text)
        else:
            self._service.misread(self, code, text)

    # -------------------------------------------------------------- answers out

    def answer(self, head: bytes, body: Buffer | list[Buffer], *, close: bool = False) -> None:
        """Send the answer of the request that is being served. `head` lacks its blank line."""
        if self._transport is None:
            return
        asked = self._head
        unread = self._payload is not None or self._head_begun
        closing = close or unread or self._service.draining or asked is None or not asked.keeps
        if closing:
            end = _END_CLOSE
        else:
            end = _END_KEEP if asked is not None and asked.version == HttpVersion10 else _END
        self._send(head + end, b"" if asked is not None and asked.method == "HEAD" else body)
        self._end(closing=closing, unread=unread)

    def begin(self, head: bytes) -> None:
        """Send the head of an answer that comes in parts. `part` sends each of them, and `finish`
        ends it. `head` lacks its blank line.
        """
        asked = self._head
        self._chunked = asked is not None and asked.version == HttpVersion11
        self._closing = (
            self._service.draining or not self._chunked or asked is None or not asked.keeps
        )
        if self._chunked:
            head += b"Transfer-Encoding: chunked\r\n"
        self._write(head + (_END_CLOSE if self._closing else _END))

    def part(self, data: bytes) -> None:
        """See `begin`. What a client does not read waits in the transport."""
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._write_paused:
            self._unsent_bytes += len(data)  # that there is more says nothing about its reading
        self._write(data)

    def finish(self, *, close: bool = False) -> None:
        """See `begin`; the connection may be kept, unless `close` says otherwise."""
        if self._transport is None:
            return
        if self._chunked:
            self._write(b"0\r\n\r\n")
        self._end(closing=close or self._closing or self._service.draining, unread=False)

    @property
    def is_write_paused(self) -> bool:
        """Whether the client has not read for a while, and more waits than should."""
        return self._write_paused

    def _end(self, *, closing: bool, unread: bool) -> None:
        """The answer is written: this request is over."""
        self._busy = False
        self._head = self._call = None
        if unread:
            self._drop_body()
        if closing:
            if unread:
                self._linger(LINGER_S if self._parser is not None else SHORT_LINGER_S)
            else:
                self._close()
            return
        self._parser.message_consumed()
        if not self._write_paused:
            self._due = time.monotonic() + self._options.keep_alive_s
            if self._is_whole and not (self._unparsed or self._peer_done):
                self._fed_s = 0.0  # nothing is left to be parsed
            elif not self._feeding:
                self._feed_unparsed()

    def _send(self, head: bytes, body: Buffer | list[Buffer]) -> None:
        if type(body) is bytes and len(body) < JOIN_BYTES and self._transport is not None:
            self._transport.write(head + body)
            return
        self._write(head)
        for buffer in body if isinstance(body, list) else (body,):
            self._write(buffer)

    def _write(self, data: Buffer) -> None:
        if self._transport is not None and len(data):
            self._transport.write(data)

    def answer_privately(self, head: bytes, body: bytes) -> None:
        """The same as `answer`, for what no page of another site may read."""
        Connection.answer(self, head, body)

    def begin_privately(self, head: bytes) -> None:
        """The same as `begin`, likewise."""
        Connection.begin(self, head)

    # -------------------------------------------------------------- ends

    def check_due(self, now: float) -> None:
        """Called a few times a second: act if this connection's present deadline has passed."""
        if self._due > now:
            return
        self._due = _NEVER
        if self._write_paused:
            self._check_progress(now)
        elif self._lingering:
            self.abort()
        elif self._payload is not None and self._call is not None:
            self._call.late(now)
        elif self._head_begun:
            message = f"no complete head within {self._options.header_timeout_s:g} s"
            self._service.misread(self, ErrorCode.BODY_TIMEOUT, message)
        elif not self._busy:
            self._close()

    def _check_progress(self, now: float) -> None:
        """A client that reads slowly is served on, one that does not read is cut off."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        if unsent >= self._unsent_bytes:
            self.abort()
            return
        self._unsent_bytes = unsent
        self._due = now + self._options.body_timeout_s

    def close_if_idle(self) -> None:
        """At drain: end a connection that owes no answer."""
        if not self._busy and not self._lingering:
            self._close()

    def abandon(self) -> None:
        """At the end of the drain: answer what is still owed with 503, whatever it waits for."""
        if self._call is not None:
            self._call.fail(ErrorCode.DRAINING, "this gateway is shutting down")
        else:
            self._close()

    @property
    def busy(self) -> bool:
        """Whether a request is being read or answered, or an answer is still being sent."""
        if self._transport is None:
            return False
        return self._busy or bool(self._transport.get_write_buffer_size())

    def _linger(self, linger_s: float) -> None:
        self._lingering = True
        self._due = time.monotonic() + linger_s
        self._unparsed = b""
        if self._transport is not None:
            self._transport.resume_reading()
            with contextlib.suppress(RuntimeError, OSError):  # it may be closing already
                self._transport.write_eof()

    def _close(self) -> None:
        """End in order: what was written still goes out."""
        self._hang_up()
        if self._transport is not None:
            self._transport.close()
            if self._due == _NEVER:
                self._due = time.monotonic() + self._options.body_timeout_s
            self._lingering = True

    def abort(self) -> None:
        """End it at once; what was not sent yet is lost."""
        if self._transport is not None:
            self._transport.abort()

    def _hang_up(self) -> None:
        """Nobody will read the answer that is owed, if one is."""
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        call, self._call = self._call, None
        self._busy = False
        self._drop_body()
        if call is not None:
            call.gone()
