"""What is wrong with a deployment, in words: read off a snapshot. Pure.

Whoever is woken at night reads these lines first. Each names the place, what is seen there, and
what helps where that is known; the worst comes first. Nothing is said that figures do not show.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from broker.core.snapshot import (
    Finding,
    PipelineSnapshot,
    Snapshot,
    StageSnapshot,
    WorkerSnapshot,
)

ERROR = "error"
"""Requests fail, or nobody can send any."""
WARNING = "warning"
FINE = "fine"

MOST = 5
"""Findings that are told; more of them would hide the first."""

LOOP = 3
"""Workers of a stage that are lost in a minute: as often as this is no accident."""

ROUNDS = 2.0
"""A queue is long when all workers together need more than so many full batches for it: a wait
that chance alone would bring about is shorter."""

LEAST_WAIT_S = 0.05
"""A shorter wait holds nobody back."""

NEARLY_FULL = 0.9
"""Share of a bound from which on it is close."""

SLOWER = 1.5
ENOUGH_BATCHES = 20
"""A worker is slow when its batches take so many times as long as those of its equals, by as many
batches of each."""

LONGEST_REASON = 200


def findings(snapshot: Snapshot) -> list[Finding]:
    """At most `MOST`, the worst first; that all is well, where it is. Never empty."""
    found = sorted(_all(snapshot), key=lambda finding: finding.rank)
    if not found:
        return [_all_well(snapshot)]
    if len(found) > MOST:
        left = len(found) - MOST + 1
        more = Finding(WARNING, "more", f"and {left} findings more", rank=found[-1].rank)
        return [*found[: MOST - 1], more]
    return found


def _all(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.draining:
        yield Finding(WARNING, "draining", "the broker is draining: it takes no new requests")
    if not snapshot.gateways:
        text = "no gateway is connected: nobody can send requests"
        yield Finding(ERROR, "no_gateway", text, rank=2)
    for name, pipeline in snapshot.pipelines.items():
        yield from _pipeline(name, pipeline)
    yield from _slow_workers(snapshot.workers)


def _pipeline(name: str, pipeline: PipelineSnapshot) -> Iterator[Finding]:
    for stage, about in pipeline.stages.items():
        yield from _hands(name, stage, about)
    slowest = _bottleneck(pipeline)
    yield from _refusals(name, pipeline, slowest)
    yield from _bounds(name, pipeline)
    yield from _versions(name, pipeline)
    if slowest:
        yield _told(name, slowest, pipeline)


def _hands(name: str, stage: str, about: StageSnapshot) -> Iterator[Finding]:
    """Whether a stage has workers, and they stay."""
    where = f"{name}: {stage}"
    if not about.ready_workers:
        text = f"{where} has no ready worker: {_short(about.reason)}"
        yield Finding(ERROR, "no_ready_worker", text, name, stage, rank=1)
    elif about.reason:
        yield Finding(ERROR, "no_ready_worker", f"{where} has {about.reason}", name, stage, rank=3)
    if about.lost_lately >= LOOP:
        text = (
            f"{where}: its workers are lost again and again, {about.lost_lately} in the last "
            f"minute; the last one: {_short(about.lost_reason)}"
        )
        yield Finding(ERROR, "restart_loop", text, name, stage, rank=4)
    if about.short_of_memory:
        text = (
            f"{where}: a worker ran out of memory, and is sent at most {about.batch_cap} of "
            f"{about.max_batch_size} items at once"
        )
        yield Finding(WARNING, "short_of_memory", text, name, stage, rank=10)


def _slow_workers(workers: Sequence[WorkerSnapshot]) -> Iterator[Finding]:
    """One that takes longer than its equals: workers that run the same for the same stage."""
    alike: dict[tuple[str, str, str], list[WorkerSnapshot]] = {}
    for worker in workers:
        if worker.batches >= ENOUGH_BATCHES:
            alike.setdefault((worker.stage, worker.version, worker.plugin), []).append(worker)
    for equals in alike.values():
        for worker in equals:
            others = [each.pace for each in equals if each is not worker]
            usual = median(others) if others else 0.0
            if usual > 0.0 and worker.pace > SLOWER * usual:
                text = (
                    f"worker {worker.pid} of {worker.stage} at {worker.host} takes "
                    f"{worker.pace / usual:.1f} times as long as its equals"
                )
                yield Finding(WARNING, "slow_worker", text, stage=worker.stage, rank=9)


def _bottleneck(pipeline: PipelineSnapshot) -> str:
    """The stage that holds back the others, or "": all its workers are busy, and what waits for it
    needs more than `ROUNDS` of their full batches, and more than a moment.

    A slow stage holds back those before it, so that requests wait at the entrance; hence what waits
    before a stage waits for it. Of several the one that takes longest for an item is to blame.
    """
    waiting = 0
    oldest_s = 0.0
    slowest, slowest_ms = "", -1.0
    for name in pipeline.chain:
        about = pipeline.stages[name]
        waiting += about.queued
        oldest_s = max(oldest_s, about.oldest_s or 0.0)
        at_once = about.ready_workers * max(about.batch_cap, 1)
        if not at_once or about.busy_workers < about.ready_workers:
            continue
        is_long = waiting > ROUNDS * at_once and oldest_s >= LEAST_WAIT_S
        if is_long and about.each_ms >= slowest_ms:
            slowest, slowest_ms = name, about.each_ms
    return slowest


def _told(name: str, stage: str, pipeline: PipelineSnapshot) -> Finding:
    about = pipeline.stages[stage]
    before = pipeline.chain[: pipeline.chain.index(stage) + 1]
    waiting = sum(pipeline.stages[each].queued for each in before)
    oldest_s = max(pipeline.stages[each].oldest_s or 0.0 for each in before)
    text = (
        f"{name}: {stage} is the bottleneck: {about.busy_workers} of {about.ready_workers} "
        f"{'worker' if about.ready_workers == 1 else 'workers'} busy, {waiting} waiting, "
        f"oldest {_seconds(oldest_s)}: start more"
    )
    return Finding(WARNING, "bottleneck", text, name, stage, rank=6)


REFUSALS = {
    "queue_full": "its queue is full (429 queue_full)",
    "overloaded": "they could not have been answered in time (503 overloaded)",
    "deadline_exceeded": "their deadline passed (504 deadline_exceeded)",
    "not_ready": "a stage has no worker (503 not_ready)",
}
FAILURES = {
    "worker_error": "forward raised, or its result would not do (500 worker_error)",
    "worker_crashed": "they killed their workers (500 worker_crashed)",
    "worker_lost": "their workers were lost (503 worker_lost)",
}
"""Codes that tell of the deployment, in words; others tell of what clients sent."""


def _refusals(name: str, pipeline: PipelineSnapshot, slowest: str) -> Iterator[Finding]:
    """Requests that got an error of late which no client is to blame for."""
    advice = f"; {slowest} needs more workers" if slowest else ""
    for code, why in REFUSALS.items():
        if count := pipeline.errors_lately.get(code, 0):
            text = f"{name} turned away {_requests(count, pipeline)}: {why}{advice}"
            yield Finding(ERROR, code, text, name, slowest, rank=5)
    for code, why in FAILURES.items():
        if count := pipeline.errors_lately.get(code, 0):
            text = f"{name} failed {_requests(count, pipeline)}: {why}"
            yield Finding(ERROR, code, text, name, rank=5)


def _requests(count: int, pipeline: PipelineSnapshot) -> str:
    noun = "request" if count == 1 else "requests"
    return f"{count} {noun} in the last {max(pipeline.lately_s, 1.0):.0f} s"


def _bounds(name: str, pipeline: PipelineSnapshot) -> Iterator[Finding]:
    if pipeline.bytes >= NEARLY_FULL * pipeline.max_bytes:
        held, most = _mib(pipeline.bytes), _mib(pipeline.max_bytes)
        text = f"{name} holds {held} of {most} MiB: it refuses what does not fit (max_bytes)"
        yield Finding(WARNING, "memory_full", text, name, rank=8)
    if pipeline.items >= NEARLY_FULL * pipeline.max_items:
        text = (
            f"{name} holds {pipeline.items} of {pipeline.max_items} requests: it refuses more than "
            "that (max_items)"
        )
        yield Finding(WARNING, "items_full", text, name, rank=8)


def _versions(name: str, pipeline: PipelineSnapshot) -> Iterator[Finding]:
    if pipeline.traffic is None:
        return
    for each in pipeline.traffic.versions:
        detail = f": {_short(each.detail)}" if each.detail else ""
        if each.state == "failed":
            text = f"{name}: version {each.version} cannot be loaded{detail}"
            yield Finding(WARNING, "version_failed", text, name, rank=7)
        elif each.share and each.state != "ready":
            text = f"{name}: version {each.version} gets {each.share:.3g} % and is {each.state}"
            yield Finding(ERROR, "version_not_ready", text + detail, name, rank=3)


def _all_well(snapshot: Snapshot) -> Finding:
    ready = sum(worker.state == "ready" for worker in snapshot.workers)
    items = sum(pipeline.items for pipeline in snapshot.pipelines.values())
    under_way = f"{items} {'request' if items == 1 else 'requests'} under way" if items else "idle"
    workers = "1 worker" if ready == 1 else f"{ready} workers"
    return Finding(FINE, "well", f"all is well: {workers} ready, {under_way}", rank=99)


def _short(text: str) -> str:
    """In one line, as much as a sentence bears."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1e3:.0f} ms"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f}"
