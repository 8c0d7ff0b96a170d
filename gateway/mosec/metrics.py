"""The metrics that MOSEC has, under its names, in the text format of Prometheus. Pure.

Written out here, since MOSEC's readers expect counts without a decimal point, which the library
writes. What a gateway knows itself is exact; what stages do the broker has counted.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from broker.wire.measures import Counts

_ALL = "all"
"""In place of a connection: workers come and go, and their names would be without end."""


class Shown(Struct, frozen=True):
    """What a gateway has counted: requests by endpoint and status, how long those took that have a
    result, and how many have no answer yet."""

    requests: Mapping[tuple[str, int], int]
    durations: Counts
    waiting: int


class StageCounts(Struct, frozen=True):
    """Of one stage: sizes of batches, how long they were held back, how long forward took."""

    batches: bool
    sizes: Counts
    fill: Counts
    forward: Counts


class _Stage(Struct):
    max_batch_size: int = 0
    counts: dict[str, Counts] = {}


class _Pipeline(Struct):
    stages: dict[str, _Stage] = {}


class _Status(Struct):
    """The part of a broker's status that is read here."""

    pipelines: dict[str, _Pipeline] = {}


_decode = msgspec.json.Decoder(_Status).decode


def stages_of(status: bytes | None) -> dict[str, StageCounts]:
    """By stage, whichever pipelines it is in."""
    if status is None:
        return {}
    found: dict[str, StageCounts] = {}
    for pipeline in _decode(status).pipelines.values():
        for name, stage in pipeline.stages.items():
            counts = stage.counts
            if not counts:
                continue
            one = StageCounts(
                stage.max_batch_size > 1, counts["sizes"], counts["fill"], counts["forward"]
            )
            found[name] = _sum(found[name], one) if name in found else one
    return found


def text(namespace: str, shown: Shown, stages: Mapping[str, StageCounts]) -> str:
    """All of them."""
    return "".join(f"{line}\n" for line in _lines(namespace, shown, stages))


def _lines(namespace: str, shown: Shown, stages: Mapping[str, StageCounts]) -> Iterator[str]:
    batching = {name: stage for name, stage in stages.items() if stage.batches}
    name = f"{namespace}_throughput"
    yield from _about(f"{name}_total", "counter", "Requests by endpoint and status.")
    for (endpoint, status), count in shown.requests.items():
        yield f'{name}_total{{code="{status}",endpoint="{_escaped(endpoint)}"}} {count}'
    name = f"{namespace}_process_duration_second"
    yield from _about(name, "histogram", "From request to result, and of each call of forward.")
    yield from _histogram(name, "total", shown.durations, connection="total")
    for stage, counts in stages.items():
        yield from _histogram(name, stage, counts.forward)
    name = f"{namespace}_batch_duration_second"
    yield from _about(name, "histogram", "How long batches were held back to be filled.")
    for stage, counts in batching.items():
        yield from _histogram(name, stage, counts.fill)
    name = f"{namespace}_batch_size"
    yield from _about(name, "histogram", "Items of each batch.")
    for stage, counts in batching.items():
        yield from _histogram(name, stage, counts.sizes)
    name = f"{namespace}_remaining_task"
    yield from _about(name, "gauge", "Requests without an answer yet.")
    yield f"{name} {shown.waiting}"


def _about(name: str, kind: str, words: str) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"


def _histogram(name: str, stage: str, counts: Counts, connection: str = _ALL) -> Iterator[str]:
    labels = f'stage="{_escaped(stage)}",connection="{connection}"'
    total = 0
    for limit, count in zip((*map(str, counts.limits), "+Inf"), counts.counts, strict=True):
        total += count
        yield f'{name}_bucket{{{labels},le="{limit}"}} {total}'
    yield f"{name}_sum{{{labels}}} {counts.total!r}"
    yield f"{name}_count{{{labels}}} {total}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _sum(one: StageCounts, other: StageCounts) -> StageCounts:
    def added(a: Counts, b: Counts) -> Counts:
        counts: Sequence[int] = [x + y for x, y in zip(a.counts, b.counts, strict=True)]
        return Counts(a.limits, list(counts), a.total + b.total)

    return StageCounts(
        one.batches or other.batches,
        added(one.sizes, other.sizes),
        added(one.fill, other.fill),
        added(one.forward, other.forward),
    )
