"""The live state of a deployment as one document: what `status`, `/ui` and metrics are shown."""

from msgspec import Struct

from broker.core.comparison import VersionFigures
from broker.core.config import StageConfig
from broker.core.diary import Happening
from broker.core.document import TrafficDocument
from broker.core.observations import ObservedFigures
from broker.core.recent import Point
from broker.core.tally import Tally
from broker.wire.measures import Counts


class Extent(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of the past is wanted: seconds of each pipeline, and events of the last hour."""

    points: int = 0
    events: int = 20


NOTHING_PAST = Extent(points=0, events=0)


class Times(Struct, frozen=True):
    """Quantiles, in milliseconds."""

    p50: float
    p95: float
    p99: float


class Estimate(Struct, frozen=True):
    """t(b) = a + c·b in milliseconds. `samples`: how many batches it was learnt from, beside those
    of warm-ups; `spread`: their mean deviation from it, as a share.
    """

    a: float
    c: float
    samples: int = 0
    spread: float = 0.0


class StageSnapshot(Struct, frozen=True):
    queued: int
    running: int
    ready_workers: int
    workers: int
    max_batch_size: int
    estimate_ms: Estimate | None
    done: int
    failed: int
    reason: str
    settings: StageConfig  # as they are in force
    batch_cap: int = 0
    """The smallest batch that is full for one of its workers: less than `max_batch_size` where they
    differ, or where one ran out of memory."""
    streaming: int = 0
    """Items that are answered by an open stream."""
    oldest_s: float | None = None
    """How long the item has waited that came first; None where none waits."""
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    """Of the last second: requests that came to it, and that it was done with."""
    wait_ms: Times | None = None
    run_ms: Times | None = None
    """Of the last minute: how long requests waited here, and how long batches took."""
    batch_sizes: dict[int, int] = {}
    """Of the last minute: batches by their size."""
    estimates_ms: dict[str, Estimate] = {}
    """t(b) by version, "" being that of workers which name none."""
    room: int = 0
    """How many may wait here before the stages in front of it are held back."""
    busy_workers: int = 0
    """Those of the ready ones that hold a batch."""
    each_ms: float = 0.0
    """What one item more takes it, in full batches by all its workers; 0 where t(b) is unknown."""
    lost_lately: int = 0
    """Its workers that were lost in the last minute, and why the last of them was."""
    lost_reason: str = ""
    short_of_memory: int = 0
    """Workers that are sent smaller batches since they ran out of memory."""
    counts: dict[str, Counts] = {}
    """Of pipelines whose gateways show these: sizes of batches, how long they were held back to be
    filled, and how long calls of forward took; since the broker began."""


class AgreementSnapshot(Struct, frozen=True):
    """Of the answers of a shadow with those of another version: see `Agreement`."""

    stable: str
    shadow: str
    copies: int
    compared: int
    agreed: int
    differed: int
    failed: int
    dropped: dict[str, int]
    note: str


class ShadowSnapshot(Struct, frozen=True):
    """`hindrance`: why there are no copies, "" while there are."""

    version: str
    hindrance: str
    copies: int  # under way
    bytes: int


class PipelineSnapshot(Struct, frozen=True):
    chain: list[str]
    ready: bool
    reasons: list[str]
    items: int
    bytes: int
    max_items: int
    max_bytes: int
    versions: list[str]
    stages: dict[str, StageSnapshot]
    tallies: dict[str, Tally] = {}
    """By version."""
    figures: list[VersionFigures] = []
    """Of the versions that are compared, from old to new."""
    observed: list[ObservedFigures] = []
    """What its plug-ins observe."""
    timeout_s: float = 0.0
    """The deadline of a request that brings none."""
    traffic: TrafficDocument | None = None
    """Where its requests go; None while its workers name no version."""
    shadow: ShadowSnapshot | None = None
    """Of the version that gets copies; None while there is none."""
    agreements: list[AgreementSnapshot] = []
    latency_ms: Times | None = None
    """Of the last minute: what results took, in queues and batches."""
    errors: dict[str, int] = {}
    """Requests that were taken in and failed, by code, since the broker began."""
    refusals: dict[str, int] = {}
    """Requests that were not taken in, likewise."""
    history: list[Point] = []
    """Second by second, up to now."""
    errors_lately: dict[str, int] = {}
    """Requests that got an error in the last `lately_s`, by its code."""
    lately_s: float = 0.0


class WorkerSnapshot(Struct, frozen=True):
    id: str
    stage: str
    state: str
    version: str
    pid: int
    host: str
    index: int
    device: str
    plugin: str
    running: int
    batches: int
    items: int
    supervisor: str
    batch_cap: int = 0
    """Most items of one batch now: fewer than it announced where it ran out of memory."""
    credit: int = 0
    """How many batches it may hold."""
    held: int = 0
    """How many it holds."""
    batch: int = 0
    """Items of the batch that it works on; 0 where it works on none."""
    batch_s: float = 0.0
    """For how long it has."""
    busy: float = 0.0
    """Which share of the last second it was busy with batches, 0 to 1."""
    streams: int = 0
    age_s: float = 0.0
    rss_bytes: int = 0
    """Memory, as its supervisor has read it; 0: not yet."""
    deaths: int = 0
    """How many workers died before it, at its place under its supervisor."""
    last_death: str = ""
    """Why the last of these did."""
    last_death_ago_s: float | None = None
    pace: float = 1.0
    """How long its batches take lately, over what was expected of them."""
    pipeline: str = ""
    """That it serves alone; "": each that has such a stage."""


class VacantSnapshot(Struct, frozen=True):
    """A place under a supervisor at which there is no worker. `vacancy`: `lost`, where a successor
    is to come; `drained`, where none comes until one is asked for. `id` is of the last worker.
    """

    id: str
    vacancy: str
    stage: str
    version: str
    host: str
    pid: int
    index: int
    supervisor: str
    since_s: float
    deaths: int
    last_death: str
    last_death_ago_s: float | None
    pipeline: str


class SupervisorSnapshot(Struct, frozen=True):
    id: str
    stage: str
    script: str
    host: str
    pid: int
    workers: int


class GatewaySnapshot(Struct, frozen=True):
    id: str
    host: str
    pid: int
    items: int


class ArenaSnapshot(Struct, frozen=True):
    """`owner`: the connected peer whose it is; "" while none is. `slots`: how many are held."""

    id: str
    owner: str
    slots: int


class Finding(Struct, frozen=True):
    """`what` names its kind, for programs; `text` is one sentence, for people."""

    level: str
    what: str
    text: str
    pipeline: str = ""
    stage: str = ""
    rank: int = 0
    """The lower, the worse."""


class Snapshot(Struct, frozen=True):
    epoch: int
    uptime_s: float
    draining: bool
    pipelines: dict[str, PipelineSnapshot]
    workers: list[WorkerSnapshot]
    supervisors: list[SupervisorSnapshot]
    gateways: list[GatewaySnapshot]
    counters: dict[str, int]
    arenas: list[ArenaSnapshot] = []
    traffic_file: str = ""
    """Where the traffic is kept; "" nowhere. This and the next are the shell's to know."""
    traffic_trouble: str = ""
    """Why the latest changes of it are not kept; "" while they are."""
    vacant: list[VacantSnapshot] = []
    events: list[Happening] = []
    """Of the last hour, the latest last."""
    at: float = 0.0
    """When this was, in seconds since 1970."""
    findings: list[Finding] = []
    """What is wrong, in words, the worst first."""
