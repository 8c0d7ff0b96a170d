"""One HTTP/1.x connection: bytes to requests, answers to bytes, in order, one at a time.

Framing, deadlines of heads and bodies, keep-alive, pipelining, `Expect`, hang-ups and lingering
closes are here. It knows nothing of pipelines or the broker: a `Service` decides on each head, and
gets the body through the `Call` that it returned.

aiohttp's own request handler runs a task and a stream reader for each request, which costs more
than all the rest of the gateway does; so this protocol drives aiohttp's parser directly. The parser
is made to stop after each message, so that what is pipelined behind a request waits unparsed.
"""

import asyncio
import contextlib
import time
from typing import Final, Protocol, cast

from aiohttp.http import HttpRequestParser, HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.streams import StreamReader

from broker.wire.errors import ErrorCode
from broker.wire.frames import Buffer
from gateway.body import Body
from gateway.headers import client_number
from gateway.memory import Stored
from gateway.options import GatewayOptions

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
    connections: "set[Connection]"
    max_connections: int

    def open(self, connection: "Connection", message: RawRequestMessage, now: float) -> Call | None:
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
        "_head_begun",
        "_lingering",
        "_loop",
        "_message",
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
        "peer_number",
    )

    def __init__(
        self, service: Service, options: GatewayOptions, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._service = service
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
        self._message: RawRequestMessage | None = None
        self._call: Call | None = None
        self._payload: StreamReader | None = None  # while the body is incomplete
        self._body: Body | None = None  # likewise, unless the answer did not need it
        self._unparsed = b""
        self._fed_s = 0.0  # when what is parsed now came in; 0 while nothing is left of it
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
        self.peer_number = 0
        """Stands for the client's address in fair shares."""

    @property
    def peer(self) -> str:
        """The client's address; "" where it has none, or has gone."""
        transport = self._transport
        name = transport.get_extra_info("peername") if transport is not None else None
        return str(name[0]) if name else ""

    # -------------------------------------------------------------- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer_number = client_number(str(peer[0]) if peer else "")
        self._due = time.monotonic() + self._options.keep_alive_s
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

    def _feed(self, data: bytes) -> None:
        """Parse until a request has begun that is not answered at once, or the bytes are used."""
        self._feeding = True
        try:
            while self._parse(data):
                data, self._unparsed = self._unparsed, b""
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

    def _parse(self, data: bytes) -> bool:
        """One step; True if another request may follow in what the parser holds."""
        try:
            messages, _upgraded, _tail = self._parser.feed_data(data)
        except HttpProcessingError as error:
            self._misread(error)
            return False
        if messages:
            message, payload = messages[0]
            self._begin(message, payload)
        elif self._payload is not None:
            self._take_body()
        else:
            self._fed_s = 0.0
            if data and not self._head_begun:
                self._head_begun = True
                self._due = time.monotonic() + self._options.header_timeout_s
            return False
        return not (self._busy or self._lingering or self._write_paused or self._transport is None)

    def _begin(self, message: RawRequestMessage, payload: StreamReader) -> None:
        self._head_begun = False
        self._busy = True
        self._message = message
        self._due = _NEVER
        complete = payload.is_eof()
        if not complete:
            self._payload = payload
        if message.version not in (HttpVersion11, HttpVersion10):
            self._service.misread(self, ErrorCode.BAD_REQUEST, "this is an HTTP/1.1 server")
            return
        call = self._call = self._service.open(self, message, self._fed_s)
        if call is None:
            return
        if complete:
            body = payload.read_nowait()
            if call.grow(len(body)):
                call.run(body)
            return
        self._due = min(time.monotonic() + self._options.body_timeout_s, call.due)
        coming = self._body = call.body()
        self._take_body()
        if self._payload is not None and not coming.size_bytes and _expects_continue(message):
            self._write(_CONTINUE)

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
        message = self._message
        unread = self._payload is not None or self._head_begun
        closing = close or unread or message is None or self._service.draining
        if message is not None:
            closing = closing or message.should_close or message.upgrade
        if closing:
            end = _END_CLOSE
        else:
            end = _END_KEEP if message is not None and message.version == HttpVersion10 else _END
        self._send(head + end, b"" if message is not None and message.method == "HEAD" else body)
        self._end(closing=closing, unread=unread)

    def begin(self, head: bytes) -> None:
        """Send the head of an answer that comes in parts. `part` sends each of them, and `finish`
        ends it. `head` lacks its blank line.
        """
        message = self._message
        self._chunked = message is not None and message.version == HttpVersion11
        self._closing = (
            self._service.draining or not self._chunked or message is None or message.should_close
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
        self._message = self._call = None
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
            if not self._feeding:
                self._feed_unparsed()

    def _send(self, head: bytes, body: Buffer | list[Buffer]) -> None:
        if type(body) is bytes and len(body) < JOIN_BYTES:
            self._write(head + body)
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


def _expects_continue(message: RawRequestMessage) -> bool:
    return message.version == HttpVersion11 and "Expect" in message.headers
