"""The messages between gateways, workers, supervisors and the broker: one struct each.

Every message is one msgpack array whose first element is its kind. Fields are append-only: a newer
peer may send more than an older one reads, and a missing trailing field takes its default. Only
durations travel, never moments, since the clocks of hosts differ. Buffers too large for the header
follow it as frames of their own; `frames.py` alone knows in which order.
"""

from enum import IntEnum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

PROTOCOL_VERSION = 1
NO_EPOCH = 0
"""The epoch in a message from a peer that no broker has welcomed yet."""

BEAT_S = 0.5
"""How often everyone says that they are alive (an idle worker says so every `IDLE_BEAT_S`)."""
IDLE_BEAT_S = 1.0
SILENCE_S = 3.0
"""After this long without a word a peer is lost."""


class Priority(IntEnum):
    """Values of X-Priority; a lower number goes first."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


class WorkerHealth(IntEnum):
    """What a supervisor reads from the operating system about one of its workers."""

    ALIVE = 0
    STOPPED = 1  # by a signal or a debugger
    GONE = 2  # exited, killed, or a zombie


class VersionState(IntEnum):
    """Where a supervisor stands with a version of its model repository."""

    FOUND = 0  # complete on disk, and not loaded
    LOADING = 1
    READY = 2  # a worker of it is warm, and none is waited for that has not failed before
    FAILED = 3  # it cannot be read, loaded or warmed up
    RETIRING = 4  # its workers drain


class TendKind(IntEnum):
    """What an operator wants of a worker's place."""

    RESTART = 1  # a successor; or anybody, where nobody is
    DRAIN = 2  # nobody, until a restart is asked for


RoutingId: TypeAlias = Annotated[bytes, Meta(max_length=255)]
"""What ZeroMQ knows a peer by, and no longer than it can be there."""

Name: TypeAlias = Annotated[str, Meta(max_length=255)]
"""Of a stage, a pipeline or a version. Those that workers bring are remembered."""

Declaration: TypeAlias = Annotated[bytes, Meta(max_length=1 << 16)]
"""What a plug-in declares of its inputs and outputs: remembered likewise."""


# ------------------------------------------------------------------ payloads


SlotKey: TypeAlias = tuple[int, int]
"""(arena, generation): names a slot for ever, since generations are never used again."""


class Ref(Struct, frozen=True, array_like=True, gc=False):
    """Bytes in shared memory: `length` of them, from `start` on in the slot whose header is at the
    offset `slot` of an arena's file and says this `generation`.
    """

    arena: int
    slot: int
    generation: int
    start: int
    length: int


class Blob(Struct, array_like=True, tag=1, gc=False):
    """A payload that is more than a few inline bytes: a body, and buffers beside it.

    `sizes` says how many buffers there are, and how long each is. A buffer travels as a frame, or
    stays in shared memory: then `refs`, which is empty or as long as `sizes`, says where. In memory
    `buffers` holds what came in frames, and None in the place of what is referred to; on the wire
    it is empty. `content_type` is set on answers that are not JSON.
    """

    body: bytes
    sizes: list[int] = []
    content_type: str = ""
    buffers: list[object] = []
    refs: list[Ref | None] = []

    def __len__(self) -> int:
        return len(self.body) + sum(self.sizes)


class Failure(Struct, array_like=True, tag=2, gc=False):
    """An item's outcome where there is no result. `status` 0 means the one of the code's row."""

    code: int
    message: str
    status: int = 0
    error_id: str = ""
    retry_after_s: float = 0.0


class Streamed(Struct, array_like=True, tag=3, gc=False):
    """An item's outcome where it is a stream. In `Results` it is open, and its values follow; at
    its end this says how many there were.
    """

    values: int = 0


Payload: TypeAlias = bytes | Blob
"""Opaque to the broker, which only asks for its len() in bytes."""

Outcome: TypeAlias = bytes | Blob | Failure | Streamed

StreamKey: TypeAlias = tuple[int, int]
"""Between broker and worker, what names a stream: its lease, and its item's place in that batch."""


class RequestMeta(Struct, array_like=True, gc=False):
    """What plug-ins may learn about the request: packed by the gateway, opaque to the broker."""

    request_id: str
    content_type: str = ""
    accept: str = ""
    traceparent: str = ""
    headers: dict[str, str] = {}
    tracestate: str = ""


# ------------------------------------------------------------------ gateway -> broker


class GatewayHello(Struct, array_like=True, tag=1, gc=False):
    protocol: int
    host: str = ""
    pid: int = 0
    arena: int = 0  # its own, 0 while it has none
    generation: int = 0  # the newest slot in it


class SubmitItem(Struct, array_like=True, gc=False):
    """One request for one pipeline. (sender, seq) names it for ever: submitting is idempotent."""

    seq: int
    pipeline: str
    payload: Payload
    meta: bytes  # a packed RequestMeta
    left_s: float  # until its deadline
    client: int = 0  # whose fair share it uses
    priority: int = Priority.NORMAL
    version: str = ""  # "" leaves the choice to the broker
    again: bool = False  # submitted before: passes bounds and prediction
    key: int = 0  # of who asks, where its pipeline's traffic is sticky: the same, the same version


SpanKey: TypeAlias = Annotated[bytes, Meta(min_length=24, max_length=24)]
"""A span that others are linked to, or children of: the ids of its trace (16 bytes) and its own."""


class Submit(Struct, array_like=True, tag=2, gc=False):
    """`traced`: those of which a trace is made, by their number, with the span of the request.
    `others`: how many clients are connected to this gateway that wait for nothing; -1: unknown.
    """

    epoch: int
    items: list[SubmitItem]
    traced: list[tuple[int, SpanKey]] = []
    others: int = -1


class Cancel(Struct, array_like=True, tag=3, gc=False):
    """Nobody waits for these any longer."""

    epoch: int
    seqs: list[int]


class GatewayBeat(Struct, array_like=True, tag=4, gc=False):
    """`waiting`: what was submitted more than a second ago and has no answer yet. The broker names
    those that it does not know in `Unknown`, so that a lost message costs seconds, not the request.
    """

    epoch: int
    waiting: list[int] = []


class Credit(Struct, array_like=True, tag=16, gc=False):
    """Of these streams, how many values their clients have taken, from the first one on. It is said
    again with each beat, so that a lost one costs no more than that.
    """

    epoch: int
    taken: list[tuple[int, int]]  # (seq, values)


# ------------------------------------------------------------------ worker -> broker


class WorkerHello(Struct, array_like=True, tag=5, gc=False):
    """Sent once the script is imported (`ready` False) and again when warm; answered by Welcome."""

    protocol: int
    supervisor: RoutingId  # of the supervisor that beats the heart for this worker
    stage: Name
    pipeline: Name = ""  # "" means every pipeline that has such a stage
    version: Name = ""
    ready: bool = False
    max_batch_size: int = 1
    concurrency: int = 1
    repeatable: bool = True
    timings: list[tuple[int, float]] = []  # (batch size, seconds) of the warm-up, or learnt since
    holding: list[int] = []  # leases of the epoch below that it still works on
    epoch: int = NO_EPOCH
    host: str = ""
    pid: int = 0
    index: int = 0
    device: str = ""
    plugin: str = ""
    arena: int = 0  # its own; 0: it does not share memory with the broker's host
    generation: int = 0  # the newest slot in it
    kept: list[SlotKey] = []  # slots that it may still look at
    signature: Declaration = b""  # what its plug-in takes and gives; opaque to the broker
    max_streams: int = 1024  # while so many are open it begins nothing


class Results(Struct, array_like=True, tag=6, gc=False):
    """The outcomes of one batch, one per item in its order.

    `run_s` is the time from taking the batch up to having its outcomes. `sample` is False where
    that says nothing about t(b): a first, halved, failed or overlapping batch.
    """

    epoch: int
    lease: int
    outcomes: list[Outcome]
    run_s: float
    sample: bool = True
    content_type: str = ""  # of outcomes that are plain bytes; "" means JSON
    kept: list[SlotKey] = []  # of the slots of this batch, those that it still looks at
    out_of_memory: int = 0  # the fewest items for which `forward` ran out of memory; 0: it did not
    decode_s: float = 0.0  # of `run_s`, until the first call of forward
    forward_s: float = 0.0  # of `run_s`, in all calls of it
    phases: list[float] = []  # of a batch that is `traced`: see `Visit`


class Step(Struct, array_like=True, gc=False):
    """What a stream has come to: its next value, its end (`Streamed`), or the error that ends it.

    `number` counts these from 1, so that one that is lost or doubled is noticed.
    """

    lease: int
    place: int
    number: int
    outcome: Outcome


class Steps(Struct, array_like=True, tag=15, gc=False):
    """What the open streams of a worker have come to since it last said so."""

    epoch: int
    steps: list[Step]


class Renew(Struct, array_like=True, tag=7, gc=False):
    """A call of forward begins under this lease: another one, or the first while streams are open,
    which the worker may have been busy with.
    """

    epoch: int
    lease: int


class WorkerBeat(Struct, array_like=True, tag=8, gc=False):
    """`holding`: every lease this worker knows of, begun or not. `kept`: every slot that it still
    looks at beyond those of these leases. `streaming`: its open streams.
    """

    epoch: int
    holding: list[int] = []
    kept: list[SlotKey] = []
    streaming: list[StreamKey] = []


class WorkerDraining(Struct, array_like=True, tag=9, gc=False):
    """It wants to leave. `returned`: leases that it has not begun and gives back."""

    epoch: int
    returned: list[int] = []


class Gone(Struct, array_like=True, tag=14, gc=False):
    """Slots that it said it had kept, and no longer looks at."""

    epoch: int
    slots: list[SlotKey]


class Observed(Struct, array_like=True, gc=False):
    """What a plug-in has observed under one name since this was said last. `squares` is the sum of
    the squared differences from the mean; `ignored` were not finite; `sample` are some of the
    others, drawn by chance, or all of them where they are few.
    """

    name: Name
    count: int
    mean: float
    squares: float
    least: float
    most: float
    ignored: int = 0
    sample: list[float] = []


class Reference(Struct, array_like=True, gc=False):
    """How it was distributed once: the shares of what is up to the first limit, above it and up to
    the second, and so on.
    """

    name: Name
    count: int
    mean: float
    deviation: float
    limits: list[float]
    shares: list[float]


class Observations(Struct, array_like=True, tag=17, gc=False):
    """What a plug-in has observed in the last second or so. `references` are those of its model."""

    epoch: int
    observed: list[Observed]
    references: list[Reference] = []


class SeriesKind(IntEnum):
    """What a plug-in's own metric is; gauges by what is made of those of several workers."""

    COUNTER = 0
    HISTOGRAM = 1
    GAUGE_SUM = 2
    GAUGE_MAX = 3
    GAUGE_MIN = 4


class PluginSeries(Struct, array_like=True, gc=False):
    """Of one metric of a plug-in, with one value for each of its labels: what was counted since
    this was said last, or what a gauge is set to. Of a histogram `amount` is the sum, and `counts`
    has how many were at most each limit, and one more.
    """

    name: Name
    kind: int  # a SeriesKind
    help: str
    labels: list[Name]
    values: list[str]
    amount: float
    limits: list[float] = []
    counts: list[int] = []


class Figures(Struct, array_like=True, tag=30, gc=False):
    """What a worker tells of itself once a second, if it is news: its arena as it is now, and since
    it said so last how many results found no room there, what its plug-in counted, and how many
    series of that were too many.
    """

    epoch: int
    arena_used_bytes: int = 0
    arena_limit_bytes: int = 0
    overflows: int = 0
    series: list[PluginSeries] = []
    dropped: int = 0


# ------------------------------------------------------------------ supervisor -> broker


class SupervisorHello(Struct, array_like=True, tag=10, gc=False):
    """`stage` is "" until one of its workers has imported the script and knows."""

    protocol: int
    stage: Name = ""
    pipeline: Name = ""
    version: Name = ""
    host: str = ""
    pid: int = 0
    script: str = ""
    has_models: bool = False  # it has a model repository, and loads the versions that are wanted


class VersionReport(Struct, array_like=True, gc=False):
    """A version in a supervisor's model repository. `detail` says why it failed."""

    version: Name
    state: int
    detail: str = ""


class WorkerReport(Struct, array_like=True, gc=False):
    worker: RoutingId  # empty: none in particular; then `failure` says why there is none
    health: int
    detail: str = ""  # "exit code 1", "signal 9", …
    out_of_memory: bool = False  # the kernel killed it for want of memory
    warm: bool = False  # it has got through setup and warm-up
    failure: str = ""  # why its script could not be loaded or set up
    cpu_s: float = 0.0  # that it has used since it began
    rss_bytes: int = 0  # memory that it takes; 0: not known
    leaving: str = ""  # why it is to leave, soon or when its successor is ready
    begun: int = 0  # if it is gone: the lease of this epoch that it began last, 0 for none


class SupervisorBeat(Struct, array_like=True, tag=11, gc=False):
    epoch: int
    reports: list[WorkerReport] = []
    draining: bool = False
    versions: list[VersionReport] = []  # all that its model repository has


# ------------------------------------------------------------------ comparer -> broker


class ComparerHello(Struct, array_like=True, tag=18, gc=False):
    """The broker's own child, which compares answers; said again as its beat."""

    protocol: int
    pid: int = 0


class Verdict(Struct, array_like=True, gc=False):
    """On the pair of this number. Where the answers differ, `stable` and `shadow` show them, cut to
    what can be kept; `note`: why they could not be compared as was asked, or, where one of them
    is `unread`, at all.
    """

    pair: int
    agree: bool
    stable: Annotated[str, Meta(max_length=4096)] = ""
    shadow: Annotated[str, Meta(max_length=4096)] = ""
    note: Annotated[str, Meta(max_length=1024)] = ""
    unread: bool = False


class Compared(Struct, array_like=True, tag=19, gc=False):
    epoch: int
    verdicts: list[Verdict]


# ------------------------------------------------------------------ anyone -> broker


class Bye(Struct, array_like=True, tag=12, gc=False):
    """This peer ends now, in order."""

    epoch: int
    reason: str = ""


class Ask(Struct, array_like=True, tag=13, gc=False):
    """A command that asks about the running deployment, or changes it; answered with Report."""

    protocol: int
    what: str
    body: bytes = b""  # JSON: what it asks for in particular
    id: int = 0  # comes back in the Report, for those who ask more than one thing at a time


# ------------------------------------------------------------------ broker -> anyone


class Welcome(Struct, array_like=True, tag=33, gc=False):
    """The answer to a HELLO: messages carry this epoch from now on.

    `arenas` names the folder in the host's shared memory where arenas of this deployment lie. Who
    reads `token` there shares a host with the broker, and may own an arena; "" means that there is
    no such folder.
    """

    epoch: int
    protocol: int
    arenas: str = ""
    token: str = ""


class Who(Struct, array_like=True, tag=34, gc=False):
    """The broker does not know the sender (or its epoch): say HELLO."""

    epoch: int


class Refused(Struct, array_like=True, tag=35, gc=False):
    """The HELLO cannot be accepted, and why, for the peer to log."""

    epoch: int
    reason: str


class Beat(Struct, array_like=True, tag=36, gc=False):
    epoch: int


class Report(Struct, array_like=True, tag=37, gc=False):
    epoch: int
    body: bytes  # JSON
    code: int = 0  # an ErrorCode where what was asked cannot be; then `message` says why
    message: str = ""  # beside a body: what the asker should know of it
    id: int = 0  # of the Ask


class Free(Struct, array_like=True, tag=44, gc=False):
    """To the owner of an arena: nobody holds the slots of these generations any longer."""

    epoch: int
    generations: list[int]


class Claims(Struct, array_like=True, tag=45, gc=False):
    """To the owner of an arena, after its HELLO: of the slots up to `generation` only `held` are
    held by anybody.
    """

    epoch: int
    generation: int
    held: list[int]


# ------------------------------------------------------------------ broker -> gateway


class StageInfo(Struct, array_like=True, gc=False):
    name: str
    ready_workers: int = 0
    workers: int = 0
    max_batch_size: int = 0
    versions: list[str] = []
    reason: str = ""  # why the stage is not ready; "" while it is
    signature: bytes = b""  # as its latest worker has it, if there is one


class VersionInfo(Struct, array_like=True, gc=False):
    """Of a version that is known, where it stands, and its share of the requests in percent."""

    name: str
    state: str
    share: float = 0.0


class MosecInfo(Struct, array_like=True, gc=False):
    """That a pipeline answers as MOSEC does, and what is said of it there."""

    namespace: str = "mosec_service"
    streams: bool = False
    openapi: str = ""


class PipelineInfo(Struct, array_like=True, gc=False):
    name: str
    stages: list[StageInfo]
    timeout_s: float = 10.0
    max_items: int = 4096
    max_bytes: int = 1 << 30
    headers: list[str] = []
    versions: list[str] = []
    absent_s: float = 5.0
    sticky: str = ""  # what of a request its `key` is made of; "": nothing
    labels: dict[str, str] = {}  # names that clients may use for versions
    states: list[VersionInfo] = []  # of its versions; empty while its workers name none
    routes: list[str] = []  # further paths at which it is served
    mosec: MosecInfo | None = None


class Catalog(Struct, array_like=True, tag=38, gc=False):
    """What is served. Sent after Welcome and whenever it changes."""

    epoch: int
    pipelines: list[PipelineInfo]
    draining: bool = False


class Answer(Struct, array_like=True, gc=False):
    """The one answer to (receiver, seq). `spans` is queue and run of each stage that ran, in s."""

    seq: int
    outcome: Outcome
    version: str = ""
    spans: list[float] = []
    content_type: str = ""  # of an outcome that is plain bytes; "" means JSON


class Answers(Struct, array_like=True, tag=39, gc=False):
    """`freed` is what `Free` would say to this gateway. `grown`: of pipelines that hold much beyond
    the bodies of their requests, how many bytes; nothing is said of those that do not.
    """

    epoch: int
    answers: list[Answer]
    freed: list[int] = []
    grown: dict[str, int] = {}


class Value(Struct, array_like=True, gc=False):
    """The next value of the stream that (receiver, seq) is answered with: JSON, unless it says
    otherwise. `number` counts from 1; the first also has what an `Answer` says about the request.
    """

    seq: int
    number: int
    payload: Payload
    version: str = ""
    spans: list[float] = []


class Values(Struct, array_like=True, tag=47, gc=False):
    """The end of a stream is its `Answer`: `Streamed`, or the `Failure` that ended it."""

    epoch: int
    values: list[Value]


class Visit(Struct, array_like=True, gc=False):
    """One run of a traced item in a stage, or its wait for one that it did not get to. Times are
    seconds since the broker took the item in; those that have not come are negative.

    `phases`: how long its batch waited in the worker, and was decoded, run and encoded.
    """

    stage: str
    attempt: int
    entered_s: float  # into the queue
    sent_s: float = -1.0  # to a worker
    ended_s: float = -1.0
    outcome: str = ""  # "" is a result; else the name of an error code, or what else became of it
    index: int = 0  # of the worker
    pid: int = 0
    host: str = ""
    version: str = ""
    batch: int = 0
    size: int = 0
    phases: list[float] = []
    links: list[SpanKey] = []  # the traced requests in the batch, this one among them


class RequestTrace(Struct, array_like=True, gc=False):
    """Where a traced request has been. `age_s`: since the broker took it in until this was sent; 0
    where nobody was sent an answer.
    """

    seq: int
    age_s: float
    visits: list[Visit]


class Traces(Struct, array_like=True, tag=53, gc=False):
    """Of traced requests that leave the broker: sent ahead of their answers, if there are any."""

    epoch: int
    traces: list[RequestTrace]


class Unknown(Struct, array_like=True, tag=40, gc=False):
    """Of the `waiting` in a beat, those that the broker does not hold: submit them again."""

    epoch: int
    seqs: list[int]


# ------------------------------------------------------------------ broker -> worker


class BatchItem(Struct, array_like=True, gc=False):
    payload: Payload
    meta: bytes  # a packed RequestMeta
    left_s: float
    attempt: int = 1


class Batch(Struct, array_like=True, tag=41, gc=False):
    """Run these. `first`: payloads are request bodies; `last`: results are answers to clients;
    `freed` is what `Free` would say to this worker.
    """

    epoch: int
    lease: int
    pipeline: str
    first: bool
    last: bool
    items: list[BatchItem]
    freed: list[int] = []
    traced: bool = False  # how long each phase takes is asked for


class Dismiss(Struct, array_like=True, tag=42, gc=False):
    """Nothing more will come: a draining worker may end now."""

    epoch: int


class StreamCredit(Struct, array_like=True, tag=48, gc=False):
    """The same for the worker that makes them."""

    epoch: int
    taken: list[tuple[int, int, int]]  # (lease, place, values)


class StreamStop(Struct, array_like=True, tag=49, gc=False):
    """Nobody wants anything more of these streams."""

    epoch: int
    streams: list[StreamKey]


# ------------------------------------------------------------------ broker -> comparer


class Pair(Struct, array_like=True, gc=False):
    """What two versions have answered the same request, and how it is to be compared.

    `how`, `rtol`, `atol` and `key` are as in the pipeline file; `plugin` is the script of the last
    stage of the shadow, as its worker's HELLO has it.
    """

    number: int
    stable: Payload
    shadow: Payload
    stable_type: str = ""  # content type of an answer that is plain bytes; "" means JSON
    shadow_type: str = ""
    how: str = "close"
    rtol: float = 0.0
    atol: float = 0.0
    key: str = ""
    plugin: str = ""


class Compare(Struct, array_like=True, tag=51, gc=False):
    epoch: int
    pairs: list[Pair]


# ------------------------------------------------------------------ broker -> supervisor


class Kill(Struct, array_like=True, tag=43, gc=False):
    """This worker hangs: SIGKILL and replace it."""

    epoch: int
    worker: RoutingId
    reason: str


class Want(Struct, array_like=True, tag=50, gc=False):
    """These versions are to be loaded, whatever the repository's policy says: requests are sent to
    them, or soon will be. It replaces what was wanted before. Those that are `rejected` were rolled
    back: a policy that asks for the newest passes over them.
    """

    epoch: int
    versions: list[Name]
    rejected: list[Name] = []


class Tend(Struct, array_like=True, tag=52, gc=False):
    """An operator wants this of the place with this index, among workers of this version. It holds
    for this life of the broker.
    """

    epoch: int
    index: int
    version: Name
    wish: int
    reason: str


class Excuse(Struct, array_like=True, tag=46, gc=False):
    """This worker died of a request that kills: no sign that the next will die, too."""

    epoch: int
    worker: bytes


FromGateway: TypeAlias = GatewayHello | Submit | Cancel | GatewayBeat | Credit
FromWorker: TypeAlias = (
    WorkerHello
    | Results
    | Steps
    | Renew
    | WorkerBeat
    | WorkerDraining
    | Gone
    | Observations
    | Figures
)
FromSupervisor: TypeAlias = SupervisorHello | SupervisorBeat
FromComparer: TypeAlias = ComparerHello | Compared
ToBroker: TypeAlias = FromGateway | FromWorker | FromSupervisor | FromComparer | Bye | Ask

ToAnyone: TypeAlias = Welcome | Who | Refused | Beat | Report | Free | Claims
ToGateway: TypeAlias = Catalog | Answers | Values | Unknown | Traces
ToWorker: TypeAlias = Batch | Dismiss | StreamCredit | StreamStop
ToSupervisor: TypeAlias = Kill | Excuse | Want | Tend
FromBroker: TypeAlias = ToAnyone | ToGateway | ToWorker | ToSupervisor | Compare
