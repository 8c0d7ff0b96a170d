"""One batch while it is run: its items read, its results taken, one outcome for each item.

Knows nothing of how `forward` is called. Never raises: whatever goes wrong becomes an outcome, and
a line in the log that has the request's id and the traceback, which the answer has not.
"""

import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from broker.payload.bodies import decode_body
from broker.payload.errors import (
    BadBody,
    CannotTravel,
    Mismatch,
    PayloadLost,
    UnsupportedType,
)
from broker.payload.media_types import JSON_TYPE, choose_answer_type
from broker.payload.objects import pack_all, unpack
from broker.payload.tensor_bodies import TENSORS_TYPE
from broker.wire import log
from broker.wire.errors import ErrorCode, ProtocolError
from broker.wire.frames import decode_meta
from broker.wire.messages import Batch, BatchItem, Failure, Outcome, RequestMeta, Streamed
from workers.api import Reject, RequestInfo, Worker
from workers.checks import Shape, wants_view
from workers.given import ADVICE, described, is_about_dtype
from workers.loader import trimmed_trace
from workers.memory import SharedMemory
from workers.outcomes import (
    answer_payload,
    answer_payloads,
    default_encoder,
    encoder_for,
    pack_payload,
    packed_parts,
    raw_body,
    value_encoder_for,
)
from workers.readonly import note_readonly
from workers.results import WrongResult, complaint, split
from workers.shortage import Shortage, is_out_of_memory
from workers.typed import decoder_for, tensor_decoder_for
from workers.whereabouts import where

FAILED = "the worker failed on this item"
_RAN_OUT = "the worker ran out of memory on this item"
_MAX_MESSAGE_CHARS = 2000
_MISMATCH_STATUS = 422
_FORM = "application/x-www-form-urlencoded"
_NO_FORM = (
    f"{FAILED}: its body came as {_FORM}, as curl -d says where nothing else is said, and was taken"
    " as bytes; JSON needs Content-Type: application/json"
)
PLAIN = frozenset({dict, list, str, bytes, int, float, bool, type(None), tuple})
"""Most results are of these types, and are no iterators."""


class Hooks:
    """A plug-in's hooks as batches need them: found out once, after `setup`, which may set them."""

    __slots__ = (
        "decode", "decode_tensors", "decodes_anywhere", "encode", "encode_value",
        "encodes_by_default", "example",
        "forward", "memory", "name", "shape", "version", "where",
    )  # fmt: skip

    def __init__(self, plugin: Worker, shape: Shape, memory: SharedMemory) -> None:
        """`memory` is where payloads are read and written."""
        self.memory = memory
        self.name = type(plugin).__name__
        self.where = where(type(plugin), "forward")
        self.shape = shape
        self.version = plugin.version
        self.forward = plugin.forward
        self.decode = _decoder_for(plugin, shape)
        # A hook of the plug-in's own may want to be called in the thread that calls the others.
        self.decodes_anywhere = type(plugin).decode is Worker.decode
        self.decode_tensors = tensor_decoder_for(shape.inputs)
        self.encode = encoder_for(plugin, shape)
        self.encodes_by_default = self.encode is default_encoder
        self.encode_value = value_encoder_for(plugin, shape.content_type, shape.outputs)
        self.example = getattr(plugin, "example", None)

    def examples(self, size: int) -> tuple[Any, ...]:
        """What to call `forward` with for a batch of so many examples."""
        if not self.shape.wants_requests:
            return ([self.example] * size,)
        info = RequestInfo(request_id="warm-up", version=self.version)
        return [self.example] * size, [info] * size


class Raised(Struct):
    """What a call of `forward` raised, as text: the exception itself would keep the memory of the
    call alive, and lack of memory is why many of them are raised."""

    summary: str
    trace: str
    reject: Reject | None = None
    out_of_memory: bool = False
    is_crowded: bool = False
    """Whether other batches were in flight beside it."""


def raised(error: BaseException) -> Raised:
    """An error as `Raised`; nothing refers to it afterwards."""
    summary = f"{type(error).__name__}: {error}"
    if isinstance(error, Reject):
        return Raised(summary, "", error)
    out_of_memory = is_out_of_memory(error)
    if out_of_memory:  # to write a traceback down takes some, too
        traceback.clear_frames(error.__traceback__)
    note_readonly(error)
    return Raised(summary, trimmed_trace(error), out_of_memory=out_of_memory)


def rejected(reject: Reject) -> Failure:
    """What a client is told that the plug-in rejects."""
    # Lone surrogates cannot travel, and a message is no document.
    message = reject.message[:_MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()
    code = ErrorCode.REJECTED if reject.status < 500 else ErrorCode.WORKER_ERROR
    return Failure(code, message, reject.status)


def is_stream(result: object) -> bool:
    """Whether a result is to be answered value by value."""
    kind = type(result)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


class Work:
    """A batch, and the outcomes that its items have so far."""

    __slots__ = (
        "_ahead", "_batch", "_hooks", "_is_json", "_metas", "_received", "_usual",
        "alone", "faults", "outcomes", "shortage", "streams",
    )  # fmt: skip

    def __init__(self, hooks: Hooks, batch: Batch, received: float) -> None:
        self._hooks = hooks
        self._batch = batch
        self._received = received
        self._metas: list[RequestMeta] = []
        if batch.first or batch.last or hooks.shape.wants_requests:
            self._metas = _metas(batch.items)
        self._is_json = batch.last and hooks.encodes_by_default and _want_json(self._metas)
        self.outcomes: list[Outcome] = [_UNDECIDED] * len(batch.items)
        self.faults = 0
        """Items for which `forward` raised, or returned an exception or what cannot be read."""
        self.shortage = Shortage()
        self.alone: list[tuple[int, Raised]] = []
        """Items that ran out of memory alone: what becomes of them is for `blame` to say."""
        self.streams: dict[int, Any] = {}
        """By place, results that are iterators."""
        self._usual: str | None = None
        self._ahead: tuple[list[Any], list[int]] | None = None

    @property
    def content_type(self) -> str:
        """Of those outcomes that are plain bytes; "" means JSON."""
        return self._usual or ""

    # -------------------------------------------------------------- before forward

    def read_ahead(self) -> None:
        """Reads all items now, for the first `read`, which is about all of them."""
        self._ahead = self.read(range(len(self._batch.items)))

    def read(self, places: Sequence[int]) -> tuple[list[Any], list[int]]:
        """The items at these places that can be read, and their places; the others fail."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            return ahead
        items, metas, decode = self._batch.items, self._metas, self._hooks.decode
        memory = self._hooks.memory
        tensors = self._hooks.decode_tensors
        first = self._batch.first
        inputs: list[Any] = []
        kept: list[int] = []
        for place in places:
            payload = items[place].payload
            try:
                if first and tensors and metas[place].content_type == TENSORS_TYPE:
                    inputs.append(tensors(payload, memory))
                elif first:
                    inputs.append(decode(raw_body(payload, memory), metas[place].content_type))
                elif type(payload) is bytes:
                    inputs.append(unpack(payload))
                else:
                    inputs.append(unpack(*packed_parts(payload, memory)))
            except BaseException as error:  # SystemExit too: a plug-in may not end the process
                self._fail_read(error, place)
            else:
                kept.append(place)
        return inputs, kept

    def arguments(self, inputs: list[Any], places: list[int]) -> tuple[Any, ...]:
        """What `forward` is to be called with."""
        if not self._hooks.shape.wants_requests:
            return (inputs,)
        return inputs, [self._request_info(place) for place in places]

    def _request_info(self, place: int) -> RequestInfo:
        item, meta = self._batch.items[place], self._metas[place]
        return RequestInfo(
            request_id=meta.request_id,
            content_type=meta.content_type,
            headers=meta.headers,
            deadline=self._received + item.left_s,
            attempt=item.attempt,
            version=self._hooks.version,
            traceparent=meta.traceparent,
            tracestate=meta.tracestate,
        )

    # -------------------------------------------------------------- after forward

    def take(self, returned: Any, places: list[int]) -> bool:
        """What `forward` returned for the items at these places becomes their outcomes.

        False where that could not be split into results, and all of them failed.
        """
        self.shortage.worked = True
        self.shortage.alone = 0
        try:
            results = split(returned, len(places))
        except WrongResult as wrong:
            hooks = self._hooks
            summary = complaint(hooks.name, hooks.where, wrong, len(places))
            self._fail_all(places, "wrong result", summary)
            return False
        except BaseException as error:  # a tensor on a broken device, an array of odd kind
            self.faults += len(places)
            self._fail_all(places, "results", _summary(error), trimmed_trace(error))
            return False
        if self._batch.last:
            self._write_answers(results, places)
        else:
            self._write_payloads(results, places)
        return True

    def _write_payloads(self, results: Sequence[Any], places: list[int]) -> None:
        outcomes, memory = self.outcomes, self._hooks.memory
        if len(results) > 1 and (bodies := pack_all(results)) is not None:
            for place, body in zip(places, bodies, strict=True):
                outcomes[place] = body
            return
        for place, result in zip(places, results, strict=True):
            if isinstance(result, BaseException):
                self._fail_returned(result, place)
                continue
            try:
                outcomes[place] = pack_payload(result, memory)
            except BaseException as error:
                self._fail_write(error, place)

    def _write_answers(self, results: Sequence[Any], places: list[int]) -> None:
        outcomes, metas, encode = self.outcomes, self._metas, self._hooks.encode
        usual = self._usual
        if self._is_json and not usual and (bodies := answer_payloads(results)) is not None:
            self._usual = ""
            for place, answer in zip(places, bodies, strict=True):
                outcomes[place] = answer
            return
        for place, result in zip(places, results, strict=True):
            if isinstance(result, BaseException):
                self._fail_returned(result, place)
                continue
            if type(result) not in PLAIN and is_stream(result):
                self.streams[place] = result
                outcomes[place] = Streamed()
                continue
            try:
                body, content_type = encode(result, metas[place].accept)
                if usual is None:
                    usual = self._usual = content_type
                outcomes[place] = answer_payload(body, content_type, usual)
            except BaseException as error:
                self._fail_write(error, place)

    # -------------------------------------------------------------- failures

    def fail_raised(self, call: Raised, places: list[int]) -> None:
        """`forward` raised for these, and will not be called for them again."""
        if call.reject is not None and len(places) == 1:
            self._reject(call.reject, places[0])
        else:
            self.faults += len(places)
            given = self._given(places[0])
            message = _NO_FORM if self._are_forms(places) else FAILED
            self._fail_all(
                places, "forward", call.summary, call.trace, given=given, message=message
            )

    def _are_forms(self, places: Sequence[int]) -> bool:
        """Whether `forward` was given bytes where the client may have meant JSON."""
        return (
            self._batch.first
            and self._hooks.decode is decode_body
            and all(meta_of(self._batch.items[each]).content_type == _FORM for each in places)
        )

    def _given(self, place: int) -> str:
        """What came from the stage before, for who wonders why `forward` cannot deal with it."""
        inputs, _ = ([], []) if self._batch.first else self.read([place])
        return described(inputs[0]) if inputs else ""

    def ran_out(self, call: Raised, places: list[int]) -> None:
        """`forward` ran out of memory for these together."""
        size = len(places)
        if not self.shortage.fewest or size < self.shortage.fewest:
            self.shortage.fewest = size
            log.warning("forward ran out of memory", items=size, error=call.summary)

    def put_off(self, call: Raised, place: int) -> None:
        """This item ran out of memory alone."""
        if call.is_crowded:  # no fault of its own
            self._leave_to_others(call, place)
        else:
            self.shortage.alone += 1
            self.alone.append((place, call))

    @property
    def trial(self) -> tuple[Any, ...] | None:
        """Arguments that show whether `forward` works at all; None where there is no example."""
        return None if self._hooks.example is None else self._hooks.examples(1)

    def blame(self, *, works: bool | None) -> None:
        """Items that ran out of memory alone fail, if the example still `works`. If it does not, or
        if there is none, that may be the worker's fault, and others are to run them.
        """
        self.shortage.is_broken = works is False
        for place, call in self.alone:
            if works:
                self.fail_raised(call, [place])
            else:
                self._leave_to_others(call, place)

    def _leave_to_others(self, call: Raised, place: int) -> None:
        self._fail_all(
            [place], "forward; another worker may run it", call.summary, call.trace,
            code=ErrorCode.OUT_OF_MEMORY, message=_RAN_OUT,
        )  # fmt: skip

    def fail_rest(self, error: BaseException) -> None:
        """Running the batch broke for a reason of our own: whatever has no outcome yet fails."""
        places = [place for place, out in enumerate(self.outcomes) if out is _UNDECIDED]
        self._fail_all(places, "runtime", _summary(error), trimmed_trace(error))

    def _fail_read(self, error: BaseException, place: int) -> None:
        if isinstance(error, Reject):
            self._reject(error, place)
        elif isinstance(error, PayloadLost):
            log.warning("payload lost", reason=str(error))
            self.outcomes[place] = Failure(ErrorCode.PAYLOAD_LOST, str(error))
        elif isinstance(error, BadBody) and self._batch.first:
            self.outcomes[place] = Failure(ErrorCode.BAD_BODY, str(error))
        elif isinstance(error, Mismatch) and self._batch.first:
            self.outcomes[place] = Failure(ErrorCode.REJECTED, str(error), _MISMATCH_STATUS)
        elif isinstance(error, UnsupportedType) and self._batch.first:
            self.outcomes[place] = Failure(ErrorCode.UNSUPPORTED_TYPE, str(error))
        else:
            note_readonly(error)
            self._fail_all([place], "decode", _summary(error), trimmed_trace(error))

    def _fail_returned(self, error: BaseException, place: int) -> None:
        if isinstance(error, Reject):
            self._reject(error, place)
        else:
            self.faults += 1
            self._fail_all([place], "forward", f"returned {_summary(error)}")

    def _fail_write(self, error: BaseException, place: int) -> None:
        if isinstance(error, Reject):
            self._reject(error, place)
        elif isinstance(error, CannotTravel):  # its message names the type and the path to it
            self._fail_all([place], "encode", f"{self._hooks.name}: {error}")
        else:
            note_readonly(error)
            self._fail_all([place], "encode", _summary(error), trimmed_trace(error))

    def _reject(self, reject: Reject, place: int) -> None:
        self.outcomes[place] = rejected(reject)

    def _fail_all(
        self, places: Sequence[int], where: str, summary: str, trace: str = "", *,
        code: ErrorCode = ErrorCode.WORKER_ERROR, message: str = FAILED, given: str = "",
    ) -> None:  # fmt: skip
        error_id = os.urandom(6).hex()
        for place in places:
            self.outcomes[place] = Failure(code, message, 0, error_id)
        requests = ",".join(meta_of(self._batch.items[place]).request_id for place in places[:8])
        if len(places) > 8:
            requests += f",… ({len(places)} in all)"
        more = {"given": given} if given else {}
        if given and is_about_dtype(summary):
            more["advice"] = ADVICE
        log.error(
            "item failed" if len(places) == 1 else "batch failed",
            **more, where=where, error=summary, error_id=error_id, request_id=requests, trace=trace,
        )  # fmt: skip


_UNDECIDED = Failure(ErrorCode.WORKER_ERROR, FAILED)


def _decoder_for(plugin: Worker, shape: Shape) -> Callable[[Any, str], Any]:
    """How this plug-in reads a body: as bytes, or in place where it asks for a memoryview."""
    if type(plugin).decode is Worker.decode:
        return decode_body if shape.inputs is None else decoder_for(shape.inputs)
    decode: Callable[[Any, str], Any] = plugin.decode
    if wants_view(decode):
        return lambda body, content_type: decode(memoryview(body).toreadonly(), content_type)
    return lambda body, content_type: decode(bytes(body), content_type)


def _metas(items: Sequence[BatchItem]) -> list[RequestMeta]:
    try:
        return [decode_meta(item.meta) for item in items]
    except ProtocolError:
        return [meta_of(item) for item in items]


def _want_json(metas: Sequence[RequestMeta]) -> bool:
    """Whether all of these clients get JSON."""
    accepted = {meta.accept for meta in metas}
    return all(choose_answer_type(accept) == JSON_TYPE for accept in accepted)


def meta_of(item: BatchItem) -> RequestMeta:
    """What the gateway said about an item's request; a meta that is none says nothing."""
    try:
        return decode_meta(item.meta)
    except ProtocolError:
        return RequestMeta("")


def _summary(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
