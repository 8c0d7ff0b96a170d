"""Batches as a broker would send them, run through a plug-in, and what came of them as objects."""

import msgspec
from msgspec import Struct

from broker.payload.objects import pack, unpack
from broker.wire import frames
from broker.wire.messages import Batch, BatchItem, Failure, Outcome, RequestMeta, Streamed
from workers.api import Worker
from workers.checks import shape_of
from workers.execute import Done, run
from workers.memory import SharedMemory
from workers.outcomes import packed_parts, raw_body
from workers.work import Hooks, Work

NO_MEMORY = SharedMemory(0)


class Ran(Struct):
    """A batch that was run, and how often its lease was renewed."""

    done: Done
    renewals: int


def item(
    payload: object, *, content_type: str = "", accept: str = "", request_id: str = "r"
) -> BatchItem:
    """An item of a first stage (bytes as they are) or of a later one (packed)."""
    meta = frames.encode_meta(RequestMeta(request_id, content_type, accept))
    if isinstance(payload, bytes):
        return BatchItem(payload, meta, 5.0)
    body, buffers = pack(payload)
    return BatchItem(frames.blob(body, buffers) if buffers else body, meta, 5.0)


def run_batch(
    plugin: Worker, items: list[BatchItem], *, first: bool = False, last: bool = False
) -> Ran:
    """Runs one batch the way a worker does."""
    hooks = Hooks(plugin, shape_of(plugin), NO_MEMORY)
    renewals: list[None] = []
    batch = Batch(1, 1, "p", first, last, items)
    return Ran(run(hooks, Work(hooks, batch, 100.0), lambda: renewals.append(None)), len(renewals))


def values(done: Done) -> list[object]:
    """Outcomes of a middle stage; a failure stays one."""
    return [_value(outcome) for outcome in done.outcomes]


def _value(outcome: Outcome) -> object:
    assert not isinstance(outcome, Streamed), "no stage but the last streams"
    return outcome if isinstance(outcome, Failure) else unpack(*packed_parts(outcome, NO_MEMORY))


def answers(done: Done) -> list[object]:
    """Outcomes of a last stage that are JSON; a failure stays one, and so does a stream."""
    return [
        out
        if isinstance(out, Failure | Streamed)
        else msgspec.json.decode(bytes(raw_body(out, NO_MEMORY)))
        for out in done.outcomes
    ]


def through(plugin: Worker, given: list[object]) -> list[object]:
    """Values through a middle stage."""
    return values(run_batch(plugin, [item(value) for value in given]).done)
