"""`--dry-run`: every stage made, in this process, and the first one's example sent through them."""

import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from millstream.local.plan import Plan
from millstream.mosec.log import get_internal_logger
from millstream.mosec.runtime import Runtime
from millstream.mosec.worker import SSEWorker, Worker, examples_of

_SHOWN_CHARS = 200


def dry_run(routes: Mapping[str, Sequence[Runtime]], plan: Plan) -> int:
    """Says what came of it, and how long each stage took; the exit code."""
    log = get_internal_logger()
    workers: dict[str, Worker] = {}
    for endpoint, chain in routes.items():
        log.info("dry run of %s: %s", endpoint, [runtime.name for runtime in chain])
        try:
            for runtime in chain:
                if runtime.name not in workers:
                    workers[runtime.name] = _make(runtime)
            result = _run([(each, workers[each.name]) for each in chain])
        except BaseException as error:
            sys.stderr.write(traceback.format_exc())
            sys.stderr.write(f"{plan.place}: dry run of {endpoint} failed: {error!r:.200}\n")
            return 1
        if result is None:
            log.info("%s has no example in its first stage: all stages were made", endpoint)
        else:
            log.info("dry run result: %s", json.dumps({"route": endpoint, **result}))
    return 0


def _make(runtime: Runtime) -> Worker:
    cls = runtime.worker
    worker = cls.__new__(cls)
    worker._worker_id, worker._stage = 1, runtime.name
    worker._max_batch_size = runtime.max_batch_size
    with _environment(runtime):
        worker.__init__()  # type: ignore[misc]
    return worker


def _run(chain: Sequence[tuple[Runtime, Worker]]) -> dict[str, Any] | None:
    """The example of the first stage, a batch of them where it gets batches."""
    runtime, first = chain[0]
    examples = examples_of(first)
    if not examples:
        return None
    data = examples[0]
    request = repr(data)[:_SHOWN_CHARS]
    items = list(data) if runtime.max_batch_size > 1 else [data]
    took_ms: dict[str, float] = {}
    began = time.perf_counter()
    for place, (each, worker) in enumerate(chain):
        if place:
            items = [worker.deserialize_ipc(item) for item in items]
        started = time.perf_counter()
        items = _forward(each, worker, items)
        took_ms[each.name] = round((time.perf_counter() - started) * 1e3, 3)
        if each is not chain[-1][0]:
            items = [worker.serialize_ipc(item) for item in items]
    last = chain[-1][1]
    is_stream = isinstance(last, SSEWorker)
    size_bytes = 0 if is_stream else sum(len(last.serialize(item)) for item in items)
    warmup_s = time.perf_counter() - began
    return {
        "request": request,
        "result_size": size_bytes,
        "warmup_duration": round(warmup_s, 6),
        "forward_ms": took_ms,
    }


def _forward(runtime: Runtime, worker: Worker, items: list[Any]) -> list[Any]:
    if isinstance(worker, SSEWorker):
        worker._send = lambda text, index: None
    with _environment(runtime):
        if runtime.max_batch_size == 1:
            return [worker.forward(item) for item in items]
        results = list(worker.forward(items))
    if len(results) != len(items):
        raise ValueError(f"{runtime.name}: {len(results)} results for {len(items)} items")
    return results


@contextmanager
def _environment(runtime: Runtime) -> Iterator[None]:
    """That of the stage's first process."""
    before = dict(os.environ)
    os.environ.update(runtime.env[0] if runtime.env else {})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
