"""The broker's report, as far as the live view shows it. Reports may grow: all has a default."""

import msgspec
from msgspec import Struct

POINTS = 120
EVENTS = 50
ASKED = msgspec.json.encode({"points": POINTS, "events": EVENTS})


class Times(Struct, frozen=True):
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


class Estimate(Struct, frozen=True):
    a: float = 0.0
    c: float = 0.0


class Stage(Struct, frozen=True):
    queued: int = 0
    running: int = 0
    ready_workers: int = 0
    busy_workers: int = 0
    workers: int = 0
    max_batch_size: int = 0
    estimate_ms: Estimate | None = None
    failed: int = 0
    oldest_s: float | None = None
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    wait_ms: Times | None = None
    run_ms: Times | None = None
    batch_sizes: dict[int, int] = {}
    room: int = 0

    @property
    def mean_batch(self) -> float:
        """Items of a batch of the last minute, on average; 0 where there was none."""
        batches = sum(self.batch_sizes.values())
        items = sum(size * count for size, count in self.batch_sizes.items())
        return items / batches if batches else 0.0


class Version(Struct, frozen=True):
    version: str = ""
    state: str = ""
    share: float = 0.0
    ready_workers: int = 0


class Traffic(Struct, frozen=True):
    canary: str = ""
    shadow: str = ""
    versions: list[Version] = []


class Point(Struct, frozen=True, array_like=True):
    """One second."""

    number: int = 0
    came: float = 0.0
    answered: float = 0.0
    failed: float = 0.0
    refused: float = 0.0
    items: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    queued: list[int] = []


class Pipeline(Struct, frozen=True):
    chain: list[str] = []
    ready: bool = False
    items: int = 0
    max_items: int = 0
    bytes: int = 0
    max_bytes: int = 0
    stages: dict[str, Stage] = {}
    traffic: Traffic | None = None
    latency_ms: Times | None = None
    history: list[Point] = []


class Worker(Struct, frozen=True):
    id: str = ""
    stage: str = ""
    state: str = ""
    version: str = ""
    pid: int = 0
    host: str = ""
    index: int = 0
    device: str = ""
    batches: int = 0
    items: int = 0
    batch: int = 0
    batch_s: float = 0.0
    busy: float = 0.0
    age_s: float = 0.0
    rss_bytes: int = 0
    deaths: int = 0
    vacancy: str = ""
    """Of a place where there is no worker: lost, or drained."""


class Event(Struct, frozen=True):
    number: int = 0
    at: float = 0.0
    what: str = ""
    fields: dict[str, str | int | float] = {}


class Finding(Struct, frozen=True):
    level: str = ""
    what: str = ""
    text: str = ""
    pipeline: str = ""
    stage: str = ""


class Report(Struct, frozen=True):
    epoch: int = 0
    uptime_s: float = 0.0
    draining: bool = False
    pipelines: dict[str, Pipeline] = {}
    workers: list[Worker] = []
    vacant: list[Worker] = []
    gateways: list[dict[str, object]] = []
    events: list[Event] = []
    findings: list[Finding] = []
    at: float = 0.0


def parse(body: bytes) -> Report:
    """Raises msgspec.MsgspecError where it is no report."""
    return msgspec.json.decode(body, type=Report)
