"""One request for inference that came over gRPC: the face of `gateway.request` for it.

What it is answered through, an RPC of its own or a stream of many, is its `Sink`.
"""

import time
from collections.abc import Sequence
from typing import Protocol

from msgspec import field

from broker.payload.errors import BadPayload
from broker.payload.tensor_bodies import TENSORS_TYPE, Buffer
from broker.wire import frames
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Answer,
    Failure,
    RequestMeta,
    Streamed,
    SubmitItem,
    Value,
)
from broker.wire.trace import tracestate
from broker.wire.window import Window
from gateway.dialect import Reply
from gateway.problems import Problem
from gateway.request import CLIENT_GONE, NO_STREAMS, Request, tensors_of
from gateway.rpc.caller import Caller
from gateway.rpc.dialect import RpcOip
from gateway.sticky import Headers

EARLY_S = 0.05
"""A client's own timer is ahead of ours by as much as its call took to get here: one that gives up
so shortly before the deadline has not hung up."""


class Sink(Protocol):
    """What a call is answered through."""

    takes_streams: bool
    """Whether there may be several answers."""

    def begin(self, call: "RpcCall") -> None:
        """A request has come, and will be answered here."""

    def send(self, call: "RpcCall", pieces: Sequence[Buffer], size: int, *, is_last: bool) -> None:
        """An answer; `call.taken(size)` is called when the client has it."""

    def end(self, call: "RpcCall") -> None:
        """There are no more."""

    def fail(self, call: "RpcCall", said: Problem) -> None:
        """There is none, or no more, and this is why."""

    def abort(self) -> None:
        """After a bug."""


class RpcCall(Request):
    """See the module. `run` and `gone` are called by whoever reads requests."""

    _sink: Sink
    _caller: Caller
    oip: RpcOip  # the request as the client has put it; its dialect, too
    asked_s: float = 0.0
    is_streaming: bool = False
    answered_by: str = ""
    bytes_in: int = 0
    _untaken: Window = field(default_factory=Window)

    @property
    def peer(self) -> str:
        """See `Request`."""
        return self._caller.address

    @property
    def traceparent(self) -> str:
        """See `Request`."""
        return self._caller.get("traceparent")

    def run(self, body: bytes) -> None:
        """The call is accepted: submit it."""
        self.bytes_in = len(body)
        self._translate(self.oip, body, None)

    def _headers(self) -> Headers:
        return self._caller

    def _pack_meta(self) -> bytes:
        caller = self._caller
        meta = RequestMeta(self.request_id, TENSORS_TYPE, TENSORS_TYPE, caller.get("traceparent"))
        if meta.traceparent:
            meta.tracestate = tracestate([caller.get("tracestate")])
        if self.view is not None and self.view.headers:
            meta.headers = {
                name: caller.get(name) for name in self.view.headers if name in caller.metadata
            }
        return frames.encode_meta(meta)

    # -------------------------------------------------------------- what the table brings

    def settle(self, answer: Answer, item: SubmitItem) -> None:
        """See `Request`."""
        outcome = answer.outcome
        self.spans = answer.spans
        if type(outcome) is Failure:
            if outcome.code == ErrorCode.WORKER_CRASHED:
                self._service.books.remember_killer(self, answer.version, item.payload)
            self.refuse(outcome, answer.version)
        elif type(outcome) is not Streamed:
            self._settle_tensors(self.oip, answer, item)
        elif not self._sink.takes_streams:
            self.fail(ErrorCode.BAD_REQUEST, NO_STREAMS)
        else:
            self._end_stream(answer, item)

    def _reply(self, reply: Reply, answer: Answer) -> None:
        self.answered_by = answer.version
        size_bytes = sum(memoryview(piece).nbytes for piece in reply.pieces)
        self._service.books.ended(self, answer.version, 200, size_bytes=size_bytes)
        self._sink.send(self, reply.pieces, 0, is_last=True)

    def stream(self, value: Value) -> None:
        """See `Request`."""
        if self._done:
            return
        if not self._sink.takes_streams:
            self.fail(ErrorCode.BAD_REQUEST, NO_STREAMS)
            return
        self.is_streaming = True
        if value.number == 1:
            self.answered_by, self.spans = value.version, value.spans
        try:
            parts = tensors_of(value.payload, "")
        except BadPayload as error:
            self.fail(ErrorCode.WORKER_ERROR, str(error))
            return
        reply = self.oip.write_part(parts, self.answered_by, is_final=False)
        self._sink.send(self, reply.pieces, len(value.payload), is_last=False)

    def _end_stream(self, answer: Answer, item: SubmitItem) -> None:
        self.is_streaming = True
        self._done = True
        timing = self.view.server_timing(self.spans) if self.view is not None else ""
        self._service.books.succeeded(self, answer.version, item.payload, timing, 0, self.spans)
        if self.oip.wants_final:
            reply = self.oip.write_final(answer.version)
            self._sink.send(self, reply.pieces, 0, is_last=True)
        else:
            self._sink.end(self)

    def taken(self, size: int) -> None:
        """The client has taken an answer that a value of so many bytes was made into."""
        if self._done or not size:
            return
        self._untaken.send(size)
        if self._untaken.is_half_full:
            self._service.credit(self.seq, self._untaken.take_all())

    # -------------------------------------------------------------- ends

    def refuse(self, failure: Failure, version: str = "") -> None:
        """See `Request`."""
        if self._done:
            return
        self._leave()
        self.answered_by = version
        said = self.oip.problem(failure, self.request_id)
        detail = failure.error_id or failure.message
        self._service.books.ended(self, version, said.status, code=said.code, detail=detail)
        self._sink.fail(self, said)

    def late(self, now: float) -> None:
        """See `Request`."""
        self.fail(ErrorCode.DEADLINE_EXCEEDED, "the deadline passed before the request was read")

    def gone(self) -> None:
        """The client has cancelled, hung up, or its deadline is over; no answer is possible."""
        if self._done:
            return
        self._leave()
        if time.monotonic() >= self.due - EARLY_S:
            code, status = ErrorCode.DEADLINE_EXCEEDED, 504
        else:
            code, status = ErrorCode.CLIENT_GONE, CLIENT_GONE
        self._service.books.ended(self, "", status, code=code.name.lower())

    def tick(self, now: float) -> None:
        """See `Request`: gRPC itself keeps connections alive."""

    def abort(self) -> None:
        """See `Request`."""
        self._sink.abort()
