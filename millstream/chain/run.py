"""Requests through a chain, a batch of many at once in each stage."""

import time
from collections.abc import Iterator, Sequence
from itertools import count
from types import TracebackType
from typing import Self, TypeAlias, cast

from msgspec import Struct

from broker.wire import frames
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Batch,
    BatchItem,
    Blob,
    Failure,
    Outcome,
    Payload,
    RequestMeta,
    Results,
    Streamed,
)
from millstream.chain.parts import Parts
from millstream.chain.stage import Stage
from workers.execute import Done
from workers.streams import OpenStream

EPOCH = 1
INLINE_BYTES = 4096
"""As a gateway does it: a larger body is a buffer of its own."""


class Sent(Struct):
    """One request, as a gateway would submit it."""

    body: bytes
    meta: RequestMeta
    left_s: float


class Answered(Struct):
    """A result, as bytes of a content type; "" means JSON."""

    body: bytes
    content_type: str


End: TypeAlias = Answered | Failure | OpenStream


class Chain:
    """The stages of a pipeline, set up while it is entered."""

    def __init__(self, parts: Parts) -> None:
        self.name = parts.name
        self.config = parts.config
        self.stages = [Stage(part) for part in parts.parts]
        self._leases = count(1)

    def __enter__(self) -> Self:
        """Raises ChainError where a plug-in cannot be set up or warmed up."""
        try:
            for stage in self.stages:
                stage.set_up()
                stage.warm_up()
        except BaseException:
            self._close(quietly=True)
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close(quietly=exc is not None)

    def _close(self, *, quietly: bool) -> None:
        """Each of them, whatever the others do; the first that `teardown` raises is raised."""
        raised: Exception | None = None
        for stage in self.stages:
            try:
                stage.close()
            except Exception as error:
                raised = raised or error
        if raised is not None and not quietly:
            raise raised

    def run(self, requests: Sequence[Sent]) -> list[End]:
        """What becomes of these, which are all there at once."""
        started = time.monotonic()
        metas = [frames.encode_meta(request.meta) for request in requests]
        payloads: dict[int, Payload] = {
            place: body_payload(request.body) for place, request in enumerate(requests)
        }
        ends: dict[int, End] = {}
        for number, stage in enumerate(self.stages):
            first, last = number == 0, number == len(self.stages) - 1
            for places in _groups(list(payloads), stage.cap):
                passed = time.monotonic() - started
                items = [
                    BatchItem(payloads[at], metas[at], requests[at].left_s - passed)
                    for at in places
                ]
                batch = Batch(EPOCH, next(self._leases), self.name, first, last, items)
                done = stage.run(batch)
                outcomes = carried(done)
                for place, outcome in zip(places, outcomes, strict=True):
                    if type(outcome) is bytes or type(outcome) is Blob:
                        payloads[place] = outcome
                        if last:
                            ends[place] = _answered(outcome, done.content_type)
                        continue
                    del payloads[place]
                    ends[place] = self._ended(stage, batch, places.index(place), outcome, done)
        return [ends[place] for place in range(len(requests))]

    def _ended(
        self, stage: Stage, batch: Batch, place: int, outcome: Outcome, done: Done
    ) -> Failure | OpenStream:
        if isinstance(outcome, Streamed):
            meta = frames.decode_meta(batch.items[place].meta)
            stream = OpenStream(
                (batch.lease, place), done.streams[place], meta.request_id, meta.accept
            )
            stage.drive(stream)
            return stream
        failure = cast(Failure, outcome)
        if failure.code == ErrorCode.OUT_OF_MEMORY:  # others would run it, to the same end
            text = f"stage {stage.name!r} has too little memory for this request"
            return Failure(ErrorCode.WORKER_ERROR, text, error_id=failure.error_id)
        return failure

    def values(self, stream: OpenStream) -> Iterator[bytes | Failure]:
        """A stream's values as JSON; a failure is the last. Closing this ends the stream."""
        stage = self.stages[-1]
        try:
            while True:
                outcome = stage.step(stream)
                if isinstance(outcome, Streamed):
                    return
                if isinstance(outcome, Failure):
                    yield outcome
                    return
                yield _answered(outcome, "").body
        finally:
            stage.end(stream)


def carried(done: Done) -> list[Outcome]:
    """The outcomes of a batch as they come out of a message: nothing of them is the plug-in's any
    longer, and arrays are read-only.
    """
    results = Results(EPOCH, 0, done.outcomes, 0.0, content_type=done.content_type)
    copied = [bytes(frame) for frame in frames.encode(results)]
    return cast(Results, frames.decode_to_broker(copied)).outcomes


def body_payload(body: bytes) -> Payload:
    """A client's body, as a gateway submits it."""
    return body if len(body) <= INLINE_BYTES else frames.blob(b"", [body])


def _groups(places: Sequence[int], size: int) -> list[Sequence[int]]:
    return [places[start : start + size] for start in range(0, len(places), size)]


def _answered(payload: Payload, usual: str) -> Answered:
    if isinstance(payload, bytes):
        return Answered(payload, usual)
    body = b"".join([payload.body, *cast(list[frames.Buffer], payload.buffers)])
    return Answered(body, payload.content_type or usual)
