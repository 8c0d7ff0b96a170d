"""What the broker has learnt of a pipeline, read off its report, and whether that is enough."""

from collections import Counter
from math import ceil
from statistics import fmean

import msgspec
from msgspec import Struct

from millstream.advise.model import StageModel

ENOUGH_BATCHES = 20
"""Of a stage, before its t(b) is one: what a warm-up tells is of the example alone."""

POINTS = 60
"""Seconds of the past that tell at what rate requests come."""


class Estimate(Struct, frozen=True):
    a: float = 0.0
    c: float = 0.0
    samples: int = 0
    spread: float = 0.0


class StageReport(Struct, frozen=True):
    """Reports may grow, and be of an older broker: whatever is missing has a default."""

    ready_workers: int = 0
    max_batch_size: int = 0
    estimates_ms: dict[str, Estimate] = {}
    batch_sizes: dict[int, int] = {}


class VersionShare(Struct, frozen=True):
    version: str = ""
    share: float = 0.0


class Traffic(Struct, frozen=True):
    versions: list[VersionShare] = []


class PipelineReport(Struct, frozen=True):
    chain: list[str] = []
    stages: dict[str, StageReport] = {}
    timeout_s: float = 10.0
    traffic: Traffic | None = None
    history: list[list[object]] = []


class WorkerReport(Struct, frozen=True):
    stage: str = ""
    version: str = ""
    credit: int = 2


class Report(Struct, frozen=True):
    pipelines: dict[str, PipelineReport] = {}
    workers: list[WorkerReport] = []


class NotLearnt(Exception):
    """The broker does not know enough; the message says of what, and what to do."""


class Learnt(Struct, frozen=True):
    """Of one pipeline: its stages with the workers that they have now, and what to know of it."""

    stages: list[StageModel]
    samples: list[int]
    timeout_s: float
    rate_per_s: float
    version: str
    notes: list[str]


def parse(body: bytes) -> Report:
    """Raises msgspec.MsgspecError where it is no report."""
    return msgspec.json.decode(body, type=Report)


def learnt(report: Report, pipeline: str) -> Learnt:
    """Raises NotLearnt."""
    about = report.pipelines.get(pipeline)
    if about is None:
        there = ", ".join(report.pipelines) or "none"
        raise NotLearnt(f"there is no pipeline {pipeline!r}; there is {there}")
    version = _main_version(about)
    stages, samples, notes = [], [], []
    for name in about.chain:
        stage = about.stages.get(name, StageReport())
        estimate = _estimate(pipeline, name, stage, version)
        credits = Counter(worker.credit for worker in report.workers if worker.stage == name)
        credit = credits.most_common(1)[0][0] if credits else 2
        samples.append(estimate.samples)
        stages.append(
            StageModel(
                name=name,
                a_s=estimate.a / 1e3,
                c_s=estimate.c / 1e3,
                spread=estimate.spread,
                cap=stage.max_batch_size,
                workers=stage.ready_workers,
                concurrency=max(credit - 1, 1),
                repeatable=credit > 1,
            )
        )
        largest = max(stage.batch_sizes, default=0)
        if 0 < largest < stage.max_batch_size / 2:
            notes.append(
                f"{name} ran batches of at most {largest} in the last minute; what larger ones "
                "take is known from its warm-up alone, or guessed"
            )
    return Learnt(stages, samples, about.timeout_s, _rate(about), version, notes)


def _estimate(pipeline: str, name: str, stage: StageReport, version: str) -> Estimate:
    if not stage.max_batch_size:
        raise NotLearnt(f"stage {name} of {pipeline} has no worker: start one, and send it load")
    estimates = stage.estimates_ms
    estimate = estimates.get(version) or estimates.get("") or Estimate()
    if estimate.samples < ENOUGH_BATCHES:
        of_version = f" for version {version}" if version and version in estimates else ""
        raise NotLearnt(
            f"how long batches of stage {name} take is not learnt yet{of_version}: "
            f"{estimate.samples} of them were run, and {ENOUGH_BATCHES} are needed; "
            f"send it some load first, such as: millstream bench "
            f"http://127.0.0.1:8000/pipelines/{pipeline} --body FILE --clients 16"
        )
    return estimate


def _main_version(about: PipelineReport) -> str:
    """The one that gets most of the requests; "" in a pipeline without versions."""
    if about.traffic is None or not about.traffic.versions:
        return ""
    return max(about.traffic.versions, key=lambda each: each.share).version


def _rate(about: PipelineReport) -> float:
    """Requests a second that came of late, refused ones among them."""
    rates = []
    for point in about.history[-POINTS:]:
        came, refused = point[1], point[4]
        if isinstance(came, int | float) and isinstance(refused, int | float):
            rates.append(float(came) + float(refused))
    return ceil(10.0 * fmean(rates)) / 10.0 if rates else 0.0
