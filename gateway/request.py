"""One request for inference, from its acceptance to its answer: the engine's side of it.

Here are its place in the table, its deadline, what it holds, and tensors on their way in and out.
How it came and how it is answered is its protocol's: each has a face of its own, which is a
subclass and not an object beside it, since one more object or call for each request would cost more
than all that is here. `call.py` is the face for HTTP.

A request waits in the pending table while the broker has it, and is what the table hands back with
the answer.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from broker.payload.errors import BadPayload
from broker.payload.tensor_bodies import TENSORS_TYPE, TensorPart, unpack_tensors
from broker.wire import frames
from broker.wire.errors import ErrorCode
from broker.wire.messages import Answer, Blob, Failure, Payload, SubmitItem, Value
from gateway.bounds import Bounds
from gateway.catalog import PipelineView
from gateway.dialect import BadRequest, Dialect, Reply, TensorRequest
from gateway.memory import Stored
from gateway.metrics import UNKNOWN
from gateway.problems import refusal
from gateway.sticky import Headers
from gateway.tracing import Trace
from gateway.uploads import tensor_payload

if TYPE_CHECKING:
    from gateway.service import Service

TRANSLATE_INLINE_BYTES = 1 << 16
"""JSON up to this size is made tensors of in about a millisecond: no thread is asked."""
CLIENT_GONE = 499
NO_STREAMS = "this pipeline answers value by value, which one answer of tensors cannot"


class Given(Struct, eq=False):
    """What is known of a request from the beginning.

    (A Struct is made in a third of the time of a class, and from arguments without names at best.)
    """

    _service: "Service"
    arrived_s: float
    request_id: str
    bounds: Bounds
    client: int
    priority: int
    name: str
    version: str
    view: PipelineView | None  # None: no catalog is known yet
    dialect: Dialect | None  # None: bodies pass through as they are


class Request(Given, kw_only=True):
    """See the module. `settle`, `stream`, `tick` and `abort` are called by the service."""

    due: float = 0.0
    trace: Trace | None = None  # where it is traced
    seq: int = 0  # in the pending table, once it is there
    spans: Sequence[float] = ()  # queue and run of each stage that ran, where that matters later
    _done: bool = False
    _reserved_bytes: int = 0

    # -------------------------------------------------------------- what a face does

    @property
    @abstractmethod
    def asked_s(self) -> float:
        """The longest that the client wants to wait, 0 where it does not say."""

    @property
    @abstractmethod
    def bytes_in(self) -> int:
        """The size of its body, as far as the client has said it."""

    @property
    @abstractmethod
    def peer(self) -> str:
        """The client's address."""

    @property
    @abstractmethod
    def traceparent(self) -> str:
        """The span that plug-ins are to be told of: its own where it is traced, else what its
        client says; "" where that says nothing.
        """

    @abstractmethod
    def settle(self, answer: Answer, item: SubmitItem) -> None:
        """The table has the answer."""

    @abstractmethod
    def stream(self, value: Value) -> None:
        """The table has the next value of the stream that answers this request."""

    @abstractmethod
    def refuse(self, failure: Failure, version: str = "") -> None:
        """Answer with a failure, whoever found it; one that is answered stays so."""

    @abstractmethod
    def late(self, now: float) -> None:
        """Its time is over before it could be submitted: answer."""

    @abstractmethod
    def tick(self, now: float) -> None:
        """A few times a second while it streams."""

    @abstractmethod
    def abort(self) -> None:
        """After a bug: end what it came by, so that its client does not wait."""

    @abstractmethod
    def _headers(self) -> Headers:
        """What came beside the body, for a rule that says which version answers."""

    @abstractmethod
    def _pack_meta(self) -> bytes:
        """What is told to workers beside the payload."""

    @abstractmethod
    def _reply(self, reply: Reply, answer: Answer) -> None:
        """Answer with tensors, as the dialect has written them."""

    # -------------------------------------------------------------- in

    def _translate(self, dialect: Dialect, body: frames.Buffer, stored: Stored | None) -> None:
        """Make tensors of the body, which may lie in shared memory, and submit them."""
        read = partial(dialect.read, body)
        if dialect.head_bytes(len(body)) > TRANSLATE_INLINE_BYTES:
            self._service.run_in_thread(
                read, lambda future: self._translated(future.result, body, stored)
            )
        else:
            self._translated(read, body, stored)

    def _translated(
        self, read: Callable[[], TensorRequest], body: frames.Buffer, stored: Stored | None
    ) -> None:
        memory = self._service.memory
        try:
            request = read()
        except BadRequest as error:
            if stored is not None:
                memory.drop([stored.ref])
            self.fail(ErrorCode.BAD_REQUEST, str(error))
            return
        if self._done:
            if stored is not None:
                memory.drop([stored.ref])
            return
        if request.timeout_s:
            self.due = min(self.due, self.arrived_s + request.timeout_s)
        if request.priority is not None:
            self.priority = request.priority
        self._submit(tensor_payload(request.inputs, body, stored, memory, request.names))

    def _submit(self, payload: Payload) -> None:
        if self._reserved_bytes:
            self._release()
        now = time.monotonic()
        service = self._service
        if now >= self.due:
            service.drop(payload)
            self.late(now)
            return
        books = service.books
        if books.killers.blamed and books.is_killer(self.name, payload, now):
            service.drop(payload)
            self.fail(ErrorCode.WORKER_CRASHED, "a body like this has just killed workers")
            return
        item = SubmitItem(
            0,
            self.name,
            payload,
            self._pack_meta(),
            0.0,
            self.client,
            self.priority,
            self.version,
        )
        if self.view is not None and self.view.sticky is not None:
            item.key = self.view.sticky.key(self._headers(), self.request_id)
        failure = service.table.add(item, self, self.due, now)
        if failure is not None:
            service.drop(payload)
            self.refuse(failure)
            return
        self.seq = item.seq
        if self.trace is not None:
            service.table.trace(item.seq, self.trace)
        service.wake(self.due)

    def submit_again(self, payload: Payload) -> None:
        """The first catalog has come, and `view`, `name` and `due` are set: submit for good."""
        self.seq = 0
        self._submit(payload)

    # -------------------------------------------------------------- out

    def _settle_tensors(self, dialect: Dialect, answer: Answer, item: SubmitItem) -> None:
        """Write the result, which is no failure and no stream, and `_reply` with it."""
        self.seq = 0  # it has left the table
        self._service.books.passed(self, item.payload)
        outcome = cast(bytes | Blob, answer.outcome)
        try:
            parts = tensors_of(outcome, answer.content_type)
        except BadPayload as error:
            self.fail(ErrorCode.WORKER_ERROR, str(error))
            return
        write = partial(dialect.write, parts, answer.version)
        if type(outcome) is bytes or dialect.is_quick(parts):  # such are small
            self._written(write, answer)
        else:
            self._service.run_in_thread(write, lambda future: self._written(future.result, answer))

    def _written(self, write: Callable[[], Reply], answer: Answer) -> None:
        try:
            reply = write()
        except BadRequest as error:
            self.fail(ErrorCode.BAD_REQUEST, str(error))
            return
        if not self._done:
            self._done = True
            self._reply(reply, answer)

    # -------------------------------------------------------------- the end

    def fail(self, code: ErrorCode, message: str) -> None:
        """Answer with an error that the gateway found."""
        self.refuse(refusal(code, message))

    def _leave(self) -> None:
        """Let go of all that is held elsewhere for this request."""
        self._done = True
        self._release()
        if self.seq:
            self._service.forget(self.seq)

    def _release(self) -> None:
        self.bounds.release(self._reserved_bytes)
        self._reserved_bytes = 0

    @property
    def pipeline_label(self) -> str:
        """The pipeline as metrics and logs name it."""
        return self.view.name if self.view is not None else UNKNOWN


def tensors_of(outcome: Payload, content_type: str) -> Sequence[TensorPart]:
    """The tensors of a result. Raises BadPayload where it has none."""
    body: frames.Buffer
    if isinstance(outcome, Blob):
        content_type = outcome.content_type or content_type
        body, buffers = outcome.body, cast(list[frames.Buffer], outcome.buffers)
        if not body and buffers:  # it was too large for the header of a message
            body, *buffers = buffers
    else:
        body, buffers = outcome, []
    if content_type != TENSORS_TYPE or frames.refs_of(outcome):
        raise BadPayload("the last stage did not answer in tensors")
    return unpack_tensors(body, buffers)
