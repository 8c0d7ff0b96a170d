"""What stands beside each line that a plug-in logs: which requests the line is about.

The loops say what they run; nothing is read from it unless a line is written. What runs is known in
the thread, or the task, that the loop calls hooks in.
"""

from contextvars import ContextVar

from broker.wire.messages import Batch
from broker.wire.trace import trace_id_of
from workers.streams import OpenStream
from workers.work import meta_of

MOST_IDS = 8
"""Of a larger batch the line has so many, and says how many there are."""

running: ContextVar[Batch | OpenStream | None] = ContextVar("running", default=None)
"""What hooks are being called for."""


def fields_now() -> dict[str, object]:
    """The fields of a line that is logged now."""
    about = running.get()
    if about is None:
        return {}
    if isinstance(about, OpenStream):
        return {"request_ids": [about.request_id]}
    return batch_fields(about)


def batch_fields(batch: Batch) -> dict[str, object]:
    """Which requests a batch has."""
    metas = [meta_of(item) for item in batch.items[:MOST_IDS]]
    fields: dict[str, object] = {"request_ids": [meta.request_id for meta in metas]}
    traces = [trace_id for meta in metas if (trace_id := trace_id_of(meta.traceparent))]
    if traces:
        fields["trace_ids"] = traces
    if len(batch.items) > MOST_IDS:
        fields["requests"] = len(batch.items)
    return fields
