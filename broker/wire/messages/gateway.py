"""Between gateways and the broker: requests, what is served, answers, streams, traces."""

from enum import IntEnum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from broker.wire.messages.kinds import kind
from broker.wire.messages.payloads import Outcome, Payload


class Priority(IntEnum):
    """Values of X-Priority; a lower number goes first."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


SpanKey: TypeAlias = Annotated[bytes, Meta(min_length=24, max_length=24)]
"""A span that others are linked to, or children of: the ids of its trace (16 bytes) and its own."""


# ------------------------------------------------------------------ to the broker


class GatewayHello(Struct, array_like=True, tag=kind, gc=False):
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


class Submit(Struct, array_like=True, tag=kind, gc=False):
    """`traced`: those of which a trace is made, by their number, with the span of the request.
    `others`: how many clients are connected to this gateway that wait for nothing; -1: unknown.
    """

    epoch: int
    items: list[SubmitItem]
    traced: list[tuple[int, SpanKey]] = []
    others: int = -1


class Cancel(Struct, array_like=True, tag=kind, gc=False):
    """Nobody waits for these any longer."""

    epoch: int
    seqs: list[int]


class GatewayBeat(Struct, array_like=True, tag=kind, gc=False):
    """`waiting`: what was submitted more than a second ago and has no answer yet. The broker names
    those that it does not know in `Unknown`, so that a lost message costs seconds, not the request.
    """

    epoch: int
    waiting: list[int] = []


class Credit(Struct, array_like=True, tag=kind, gc=False):
    """Of these streams, how many values their clients have taken, from the first one on. It is said
    again with each beat, so that a lost one costs no more than that.
    """

    epoch: int
    taken: list[tuple[int, int]]  # (seq, values)


# ------------------------------------------------------------------ from the broker


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


class Catalog(Struct, array_like=True, tag=kind, gc=False):
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


class Answers(Struct, array_like=True, tag=kind, gc=False):
    """`freed` is what `Free` would say to this gateway. `grown`: of pipelines that hold much beyond
    the bodies of their requests, how many bytes; nothing is said of those that do not. `traces` are
    those of these answers.
    """

    epoch: int
    answers: list[Answer]
    freed: list[int] = []
    grown: dict[str, int] = {}
    traces: "list[RequestTrace]" = []


class Value(Struct, array_like=True, gc=False):
    """The next value of the stream that (receiver, seq) is answered with: JSON, unless it says
    otherwise. `number` counts from 1; the first also has what an `Answer` says about the request.
    """

    seq: int
    number: int
    payload: Payload
    version: str = ""
    spans: list[float] = []


class Values(Struct, array_like=True, tag=kind, gc=False):
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


class Traces(Struct, array_like=True, tag=kind, gc=False):
    """Of traced requests that leave the broker without an answer: see `Answers`."""

    epoch: int
    traces: list[RequestTrace]


class Unknown(Struct, array_like=True, tag=kind, gc=False):
    """Of the `waiting` in a beat, those that the broker does not hold: submit them again."""

    epoch: int
    seqs: list[int]


FromGateway: TypeAlias = GatewayHello | Submit | Cancel | GatewayBeat | Credit
ToGateway: TypeAlias = Catalog | Answers | Values | Unknown | Traces
