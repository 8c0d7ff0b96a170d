"""One stage that is tried: batches of an item, alone and in company, and what comes of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from broker.payload.errors import CannotTravel
from broker.payload.objects import unpack
from broker.payload.tensor_bodies import TENSORS_TYPE
from broker.wire import frames
from broker.wire.messages import (
    Batch,
    BatchItem,
    Blob,
    Failure,
    Outcome,
    Payload,
    RequestMeta,
    Streamed,
)
from millstream.chain.complaints import Complaint
from millstream.chain.run import EPOCH, carried
from millstream.chain.stage import NO_MEMORY, Stage
from workers import comparing
from workers.execute import Done
from workers.outcomes import pack_payload, packed_parts
from workers.streams import OpenStream
from workers.work import Work

CLOSE = comparing.Rule("close", rtol=1e-3, atol=1e-5)
MOST_VALUES = 32
"""Of a stream that is tried."""
STREAM_S = 2.0
LEFT_S = 3600.0
"""Nobody waits."""


class Sample(NamedTuple):
    """What a stage is run with: a payload, a client's body in the first stage, or else an item as
    `forward` sees it. `source` is who made it.
    """

    source: str
    payload: Payload | None = None
    item: Any = None
    content_type: str = ""


class Bad(NamedTuple):
    """What came of an item that failed."""

    failure: Failure
    complaint: Complaint | None


class Trial:
    """See the module."""

    def __init__(self, stage: Stage, *, first: bool, last: bool) -> None:
        self.stage = stage
        self.is_first = first
        self.is_last = last
        self._leases = count(1)

    # -------------------------------------------------------------- batches

    def run(self, samples: Sequence[Sample], *, accept: str = "") -> tuple[Done, list[Outcome]]:
        """A batch of these, which are all of one kind; its outcomes are read-only copies."""
        done = self.stage.run_work(self._work(samples, accept))
        return done, carried(done)

    def _work(self, samples: Sequence[Sample], accept: str) -> Work:
        items = []
        for sample in samples:
            meta = RequestMeta("check", sample.content_type, accept)
            payload = b"" if sample.payload is None else sample.payload
            items.append(BatchItem(payload, frames.encode_meta(meta), LEFT_S))
        batch = Batch(EPOCH, next(self._leases), "check", self.is_first, self.is_last, items)
        now = time.monotonic()
        if samples[0].payload is None:
            return _Given(self.stage.hooks, batch, now, [sample.item for sample in samples])
        return Work(self.stage.hooks, batch, now)

    def times(self, sample: Sample, size: int) -> bool:
        """Runs a batch of one item so many times; False where that was no ordinary batch."""
        done = self.stage.run_work(self._work([sample] * size, ""))
        for stream in self.open_streams(done):
            self.stage.end(stream)
        return done.sample and not done.streams

    # -------------------------------------------------------------- what came of it

    def value(self, outcome: Outcome, done: Done) -> Any:
        """A result as the next stage, or the client, gets it."""
        if not isinstance(outcome, bytes | Blob):
            return None
        if self.is_last:
            return comparing.read(outcome, done.content_type)
        return unpack(*packed_parts(outcome, NO_MEMORY))

    def opened(self, sample: Sample) -> Any:
        """A sample of a later stage, as `forward` will see it."""
        if sample.payload is None:
            return sample.item
        return unpack(*packed_parts(sample.payload, NO_MEMORY))

    def companions(self, sample: Sample, make: Callable[[Any, int], Any]) -> list[Sample]:
        """Others like it, of which `make` makes the items; none where it makes none."""
        item = self.opened(sample)
        others: list[Sample] = []
        for number in range(self.stage.cap // 2):
            other = make(item, number)
            if other is item:
                return []
            payload = None
            if sample.payload is not None:
                try:
                    payload = pack_payload(other, NO_MEMORY)
                except CannotTravel:
                    return []
            others.append(Sample(sample.source, payload, other))
        return others

    def stream_values(self, done: Done) -> tuple[list[bytes], Failure | None]:
        """Of each stream its first values; and how one broke."""
        values: list[bytes] = []
        for stream in self.open_streams(done):
            until = time.monotonic() + STREAM_S
            try:
                while len(values) < MOST_VALUES and time.monotonic() < until:
                    outcome = self.stage.step(stream)
                    if isinstance(outcome, Failure):
                        return values, outcome
                    if isinstance(outcome, Streamed):
                        break
                    values.append(_bytes_of(outcome))
            finally:
                self.stage.end(stream)
        return values, None

    def open_streams(self, done: Done) -> Iterator[OpenStream]:
        """Those among the results of a batch."""
        for place, iterator in done.streams.items():
            stream = OpenStream((0, place), iterator, "check")
            self.stage.drive(stream)
            yield stream

    def as_tensors(self, sample: Sample) -> list[Outcome]:
        """What a client gets that asks for tensors."""
        return self.run([sample], accept=TENSORS_TYPE)[1]


class _Given(Work):
    """A batch of items that need not be read."""

    __slots__ = ("_items",)

    def __init__(self, hooks: Any, batch: Batch, received: float, given: list[Any]) -> None:
        super().__init__(hooks, batch, received)
        self._items = given

    def read(self, places: Sequence[int]) -> tuple[list[Any], list[int]]:
        """See `Work`."""
        return [self._items[place] for place in places], list(places)


def _bytes_of(outcome: bytes | Blob) -> bytes:
    if isinstance(outcome, bytes):
        return outcome
    return b"".join([outcome.body, *outcome.buffers])  # type: ignore[list-item]
