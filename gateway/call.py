"""One request for inference that came over HTTP, from its accepted head to its answer.

A call is owned by its connection until it is answered. What is the same in every protocol is in
`request.py`.
"""

import time
from asyncio import Future
from functools import partial
from typing import cast

from broker.payload.arena import ARENA_BYTES
from broker.payload.tensor_bodies import TENSORS_TYPE
from broker.wire import frames
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Answer,
    Blob,
    Failure,
    RequestMeta,
    Streamed,
    SubmitItem,
    Value,
)
from gateway import deflate
from gateway.body import Body
from gateway.connection import JOIN_BYTES, Connection
from gateway.dialect import Dialect, Reply
from gateway.head import Head
from gateway.headers import accepts_gzip, clean, response_value
from gateway.inflate import Broken, TooLarge, inflate
from gateway.memory import Stored
from gateway.problems import problem
from gateway.request import CLIENT_GONE, NO_STREAMS, Request
from gateway.sticky import Headers
from gateway.streams import EVENTS_TYPE, NDJSON_TYPE, Events, wants_ndjson
from gateway.uploads import lead_bytes

INLINE_BYTES = 4096
"""A body up to this size travels in the message's header, a larger one as a frame of its own."""
INFLATE_INLINE_BYTES = 512
"""A compressed body up to this size inflates to half a megabyte at the most: no thread is asked."""
JSON = "application/json"


class Call(Request):
    """See the module. `run`, `grow`, `late`, `fail` and `gone` are called by the connection."""

    _connection: Connection
    _head: Head
    _events: Events | None = None  # where the answer is a stream that has begun

    @property
    def asked_s(self) -> float:
        """See `Request`."""
        return self._head.asked_s

    @property
    def bytes_in(self) -> int:
        """See `Request`."""
        return self._head.size_bytes

    @property
    def peer(self) -> str:
        """See `Request`."""
        return self._connection.peer

    @property
    def traceparent(self) -> str:
        """See `Request`."""
        return self._head.traceparent if self.trace is None else self.trace.context.header()

    # -------------------------------------------------------------- the body

    def grow(self, size_bytes: int) -> bool:
        """See `connection.Call`: bounds one body, and all that are on their way together."""
        service = self._service
        if size_bytes > service.max_body_bytes:
            self.fail(ErrorCode.BODY_TOO_LARGE, service.too_large)
            return False
        more = size_bytes - self._reserved_bytes
        if more > INLINE_BYTES or self._reserved_bytes:
            if more > 0 and not self.bounds.reserve(more, up=service.table.up):
                self.fail(ErrorCode.QUEUE_FULL, "too much waits for this pipeline")
                return False
            self._reserved_bytes += max(more, 0)
        return True

    def body(self) -> Body:
        """See `connection.Call`. Compressed bytes are for us alone: no shared memory for them."""
        size_bytes = 0 if self._head.encoding else self._head.size_bytes
        lead = lead_bytes(self.dialect.head_bytes(size_bytes)) if self.dialect is not None else 0
        return Body(self._service.memory, size_bytes, lead)

    def run_whole(self, body: bytes) -> None:
        """See `connection.Call`."""
        is_plain = self.dialect is None and not self._head.encoding
        if is_plain and len(body) <= self._service.easy_bytes:
            self._submit(body)
        elif self.grow(len(body)):
            self.run(body)

    def run(self, body: bytes | Stored) -> None:
        """The body is complete: inflate it where it must be, and submit it."""
        if isinstance(body, Stored) and self.dialect is not None:
            self._translate(self.dialect, body.memory, body)
        elif isinstance(body, Stored):
            self._submit(frames.blob(b"", [body.ref]))
        elif not self._head.encoding:
            self._submit_bytes(body)
        elif len(body) <= INFLATE_INLINE_BYTES:
            try:
                plain = inflate(body, self._head.encoding, self._service.max_body_bytes)
            except (Broken, TooLarge) as error:
                self._inflate_failed(error)
            else:
                self._submit_bytes(plain)
        else:
            work = partial(inflate, body, self._head.encoding, self._service.max_body_bytes)
            self._service.run_in_thread(work, self._inflated)

    def _inflated(self, future: "Future[bytes]") -> None:
        error = future.exception()
        if self._done:
            return
        if error is None:
            self._submit_bytes(future.result())
        else:
            self._inflate_failed(error)

    def _inflate_failed(self, error: BaseException) -> None:
        if isinstance(error, TooLarge):
            self.fail(ErrorCode.BODY_TOO_LARGE, self._service.too_large)
        elif isinstance(error, Broken):
            self.fail(ErrorCode.BAD_BODY, f"the body is not {self._head.encoding}: {error}")
        else:
            raise error

    def _submit_bytes(self, body: bytes) -> None:
        size_bytes = len(body)
        if self.dialect is not None:
            self._translate(self.dialect, body, None)
            return
        if size_bytes <= INLINE_BYTES:
            self._submit(body)
            return
        stored = self._service.memory.store(body) if size_bytes >= ARENA_BYTES else None
        self._submit(frames.blob(b"", [body if stored is None else stored.ref]))

    def _headers(self) -> Headers:
        return self._head.headers

    def _pack_meta(self) -> bytes:
        head, view, trace = self._head, self.view, self.trace
        is_plain = self.dialect is None and (view is None or not view.headers)
        if is_plain and head.meta and trace is None:
            return frames.named(self.request_id, head.meta)
        types = (head.content_type, head.accept) if self.dialect is None else (TENSORS_TYPE,) * 2
        tracestate = head.tracestate if trace is None else trace.tracestate
        meta = RequestMeta(self.request_id, *types, self.traceparent, tracestate=tracestate)
        if view is not None and view.headers:
            headers = head.headers
            meta.headers = {
                name: clean(", ".join(headers.getall(name)))
                for name in view.headers
                if name in headers
            }
        return frames.encode_meta(meta)

    # -------------------------------------------------------------- ends

    def settle(self, answer: Answer, item: SubmitItem, extra: bytes = b"") -> None:
        """The table has the answer; `extra` are header lines of one that was compressed."""
        outcome = answer.outcome
        if self.dialect is not None and not isinstance(outcome, Failure):
            self._settle_in_dialect(self.dialect, answer, item)
        elif isinstance(outcome, bytes):
            self._settle_result(answer, item, outcome, len(outcome), answer.content_type, extra)
        elif isinstance(outcome, Failure):
            if outcome.code == ErrorCode.WORKER_CRASHED:
                self._service.books.remember_killer(self, answer.version, item.payload)
            self.spans = answer.spans
            self.refuse(outcome, answer.version)
        elif isinstance(outcome, Streamed):
            self._end_stream(answer, outcome, item)
        elif frames.refs_of(outcome):  # to memory that the broker could not read for us
            self.fail(ErrorCode.WORKER_LOST, "the result was lost with its worker")
        else:
            content_type = outcome.content_type or answer.content_type
            body = [outcome.body, *cast(list[frames.Buffer], outcome.buffers)]
            self._settle_result(answer, item, body, len(outcome), content_type, extra)

    def _settle_result(  # noqa: PLR0917  # keywords cost
        self,
        answer: Answer,
        item: SubmitItem,
        body: frames.Buffer | list[frames.Buffer],
        size_bytes: int,
        content_type: str,
        extra: bytes,
    ) -> None:
        service = self._service
        least_bytes = service.compress_bytes
        if (
            least_bytes
            and size_bytes >= least_bytes
            and not extra
            and self._compresses(answer, item, body, size_bytes, content_type)
        ):
            return
        self._done = True
        version, spans, view = answer.version, answer.spans, self.view
        timing = view.server_timing(spans) if spans and view is not None else ""
        head = service.heads.result(
            response_value(content_type) if content_type else JSON,
            size_bytes,
            self.request_id,
            response_value(version),
            timing,
        )
        self._connection.answer(head + extra, body)
        service.books.succeeded(self, version, item.payload, timing, size_bytes, spans)

    def _settle_in_dialect(self, dialect: Dialect, answer: Answer, item: SubmitItem) -> None:
        if isinstance(answer.outcome, Streamed):
            self.fail(ErrorCode.BAD_REQUEST, NO_STREAMS)
        else:
            self._settle_tensors(dialect, answer, item)

    def _compresses(
        self,
        answer: Answer,
        item: SubmitItem,
        body: frames.Buffer | list[frames.Buffer],
        size_bytes: int,
        content_type: str,
    ) -> bool:
        """Whether the answer is compressed first; it is settled when that is done."""
        coding = self._coding(content_type, self._head.headers.get("Accept-Encoding", ""))
        if coding is None:
            return False

        def done(body: bytes) -> None:
            if not self._done:  # the client may have gone meanwhile
                smaller = Answer(answer.seq, body, answer.version, answer.spans, content_type)
                self.settle(smaller, item, coding.lines)

        self._service.compress(body, size_bytes, coding, done)
        return True

    def _coding(self, content_type: str, accepted: str) -> deflate.Coding | None:
        """How a large answer of this type is compressed for a client that accepts these codings."""
        if deflate.is_worth_it(content_type) and accepts_gzip(accepted):
            return deflate.GZIP
        return None

    def _reply(self, reply: Reply, answer: Answer) -> None:
        extra = reply.extra
        if answer.version:
            extra += f"X-Model-Version: {response_value(answer.version)}\r\n"
        if self.view is not None and answer.spans:
            extra += f"Server-Timing: {self.view.server_timing(answer.spans)}\r\n"
        pieces = reply.pieces
        body: frames.Buffer | list[frames.Buffer] = pieces[0] if len(pieces) == 1 else pieces
        size_bytes = sum([memoryview(piece).nbytes for piece in pieces])
        if len(pieces) > 1 and size_bytes < JOIN_BYTES:
            body = b"".join(pieces)  # what is small goes out with its head, in one packet
        head = self._service.heads.plain(
            200,
            size_bytes,
            content_type=reply.content_type,
            request_id=self.request_id,
            extra=extra,
        )
        self._connection.answer(head, body)
        self.spans = answer.spans
        self._service.books.ended(self, answer.version, 200, size_bytes=size_bytes)

    def late(self, now: float) -> None:
        """See `connection.Call`."""
        if now >= self.due:
            self.fail(ErrorCode.DEADLINE_EXCEEDED, "the deadline passed before the body was there")
        else:
            self.fail(ErrorCode.BODY_TIMEOUT, "the body did not arrive in time")

    def refuse(self, failure: Failure, version: str = "") -> None:
        """Answer with a failure, whoever found it."""
        if self._done:
            return
        self._leave()
        said = (self.dialect.problem if self.dialect is not None else problem)(
            failure, self.request_id
        )
        service = self._service
        if self._events is not None:
            self._events.error(said.body)
            self._events = None
            detail = failure.error_id or failure.message
            service.books.ended(self, version, said.status, code=said.code, detail=detail)
            self._connection.finish(close=True)
            return
        extra = said.extra
        if version:
            extra += f"X-Model-Version: {response_value(version)}\r\n"
        head = service.heads.plain(
            said.status, len(said.body), request_id=self.request_id, extra=extra
        )
        detail = failure.error_id or failure.message
        size_bytes = len(said.body)
        service.books.ended(
            self, version, said.status, code=said.code, detail=detail, size_bytes=size_bytes
        )
        self._connection.answer(head, said.body)

    def gone(self) -> None:
        """See `connection.Call`."""
        if not self._done:
            self._leave()
            self._events = None
            self._service.books.ended(
                self, "", CLIENT_GONE, code=ErrorCode.CLIENT_GONE.name.lower()
            )

    # -------------------------------------------------------------- streams

    def stream(self, value: Value) -> None:
        """The table has the next value of the stream that answers this call."""
        if self._done:
            return
        payload = value.payload
        if self.dialect is not None or (type(payload) is Blob and payload.content_type):
            self.fail(ErrorCode.BAD_REQUEST, NO_STREAMS)
            return
        now = time.monotonic()
        if self._events is None:
            self._events = self._begin_stream(value.version, value.spans, now)
        self._events.value(payload, now)

    def _begin_stream(self, version: str, spans: list[float], now: float) -> Events:
        service = self._service
        is_ndjson = wants_ndjson(self._head.headers.get("Accept", ""))
        timing = self.view.server_timing(spans) if self.view and spans else ""
        head = service.heads.stream(
            NDJSON_TYPE if is_ndjson else EVENTS_TYPE,
            self.request_id,
            response_value(version),
            timing,
        )
        self._connection.begin(head)
        service.streaming.add(self)

        def credit(values: int) -> None:
            service.credit(self.seq, values)

        return Events(self._connection, credit, is_ndjson=is_ndjson, now=now)

    def _end_stream(self, answer: Answer, outcome: Streamed, item: SubmitItem) -> None:
        if self._events is None:  # it had no values
            self._events = self._begin_stream(answer.version, answer.spans, time.monotonic())
        self._done = True
        service = self._service
        service.streaming.discard(self)
        self._events.end(outcome.values)
        self._events = None
        spans = answer.spans
        timing = self.view.server_timing(spans) if self.view is not None else ""
        service.books.succeeded(self, answer.version, item.payload, timing, 0, spans)
        self._connection.finish()

    def drained(self) -> None:
        """See `connection.Call`."""
        if self._events is not None:
            self._events.drained()

    def tick(self, now: float) -> None:
        """A few times a second while it streams."""
        if self._events is not None:
            self._events.tick(now)

    # -------------------------------------------------------------- the end

    def abort(self) -> None:
        """After a bug: end the connection, so that its client does not wait."""
        self._connection.abort()

    def _leave(self) -> None:
        super()._leave()
        if self._events is not None:
            self._service.streaming.discard(self)
