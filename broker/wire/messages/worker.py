"""Between workers and the broker: batches, results, streams, and what plug-ins count."""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from broker.wire.messages.kinds import kind
from broker.wire.messages.payloads import Outcome, Payload, SlotKey, StreamKey
from broker.wire.messages.terms import NO_EPOCH, Declaration, Name, RoutingId

# ------------------------------------------------------------------ to the broker


class WorkerHello(Struct, array_like=True, tag=kind, gc=False):
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


class Results(Struct, array_like=True, tag=kind, gc=False):
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


class Steps(Struct, array_like=True, tag=kind, gc=False):
    """What the open streams of a worker have come to since it last said so."""

    epoch: int
    steps: list[Step]


class Renew(Struct, array_like=True, tag=kind, gc=False):
    """A call of forward begins under this lease: another one, or the first while streams are open,
    which the worker may have been busy with.
    """

    epoch: int
    lease: int


class WorkerBeat(Struct, array_like=True, tag=kind, gc=False):
    """`holding`: every lease this worker knows of, begun or not. `kept`: every slot that it still
    looks at beyond those of these leases. `streaming`: its open streams.
    """

    epoch: int
    holding: list[int] = []
    kept: list[SlotKey] = []
    streaming: list[StreamKey] = []


class WorkerDraining(Struct, array_like=True, tag=kind, gc=False):
    """It wants to leave. `returned`: leases that it has not begun and gives back."""

    epoch: int
    returned: list[int] = []


class Gone(Struct, array_like=True, tag=kind, gc=False):
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


class Observations(Struct, array_like=True, tag=kind, gc=False):
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


class WorkerFigures(Struct, array_like=True, tag=kind, gc=False):
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


# ------------------------------------------------------------------ from the broker


class BatchItem(Struct, array_like=True, gc=False):
    payload: Payload
    meta: bytes  # a packed RequestMeta
    left_s: float
    attempt: int = 1


class Batch(Struct, array_like=True, tag=kind, gc=False):
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


class Dismiss(Struct, array_like=True, tag=kind, gc=False):
    """Nothing more will come: a draining worker may end now."""

    epoch: int


class StreamCredit(Struct, array_like=True, tag=kind, gc=False):
    """What `Credit` says of these streams, for the worker that makes their values."""

    epoch: int
    taken: list[tuple[int, int, int]]  # (lease, place, values)


class StreamStop(Struct, array_like=True, tag=kind, gc=False):
    """Nobody wants anything more of these streams."""

    epoch: int
    streams: list[StreamKey]


FromWorker: TypeAlias = (
    WorkerHello
    | Results
    | Steps
    | Renew
    | WorkerBeat
    | WorkerDraining
    | Gone
    | Observations
    | WorkerFigures
)
ToWorker: TypeAlias = Batch | Dismiss | StreamCredit | StreamStop
