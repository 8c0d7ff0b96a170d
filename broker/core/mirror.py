"""Where the copies of a pipeline are: a second pipeline of its stages, from the first one with
versions on.

It has queues, bounds and counts of its own, and shares the workers of the real stages, so that
copies count nowhere else.
"""

from msgspec import Struct
from msgspec.structs import replace

from broker.core.item import Item
from broker.core.peers import Gateway
from broker.core.stage import Pipeline, Stage
from broker.wire.messages import Answer, GatewayHello, SlotKey

PART = 8
"""Copies under way are no more than this part of the pipeline's items and bytes; beyond the bounds
of real requests, not out of them."""


class Pair(Struct, eq=False):
    """A request and its copy, until both are answered."""

    item: Item
    copy: Item
    stable: Answer | None = None
    shadow: Answer | None = None
    slots: tuple[SlotKey, ...] = ()  # held for these answers
    size: int = 0  # bytes of these answers


class Mirror:
    """The copies of one pipeline, for one version."""

    __slots__ = (
        "copies", "fork", "forked", "gateway", "held", "pairs", "paused_until", "pipeline", "seq",
        "shape", "version",
    )  # fmt: skip

    def __init__(self, pipeline: Pipeline, fork: Stage, version: str, now: float) -> None:
        self.pipeline = pipeline
        self.version = version
        self.fork = fork
        self.shape = shape_of(pipeline)
        self.copies = _twin(pipeline, fork, now)
        self.gateway = Gateway(b"\0shadow " + pipeline.name.encode(), GatewayHello(0), now)
        self.pairs: dict[int, Pair] = {}  # by the number of the copy
        self.held = 0  # bytes of answers that wait for the other one
        self.seq = 0
        self.paused_until = now
        self.forked: list[Item] = []
        fork.forked = self.forked

    @property
    def bytes(self) -> int:
        return self.copies.bytes + self.held


def shape_of(pipeline: Pipeline) -> list[bool]:
    """Which of its stages have versions: a mirror is of one shape."""
    return [stage.versioned for stage in pipeline.stages]


def _twin(pipeline: Pipeline, fork: Stage, now: float) -> Pipeline:
    """A pipeline for copies: bounds and queues of its own, the workers of this one."""
    config = pipeline.config
    own = replace(
        config,
        chain=config.chain[fork.index :],
        max_items=max(1, config.max_items // PART),
        max_bytes=config.max_bytes // PART,
        attempts=0,  # what is lost is lost
        guard=None,
    )
    twin = Pipeline(pipeline.name, own, now)
    twin.is_copy = True
    for stage, real in zip(twin.stages, pipeline.stages[fork.index :], strict=True):
        stage.first = real.first
        stage.measures = None
        stage.versioned = real.versioned
        stage.workers, stage.idle, stage.spare = real.workers, real.idle, real.spare
        stage.estimates, stage.caps = real.estimates, real.caps
    return twin


def hindrance(pipeline: Pipeline) -> str:
    """Why no copies may be made of this pipeline's items, or ""."""
    fork = next((stage for stage in pipeline.stages if stage.versioned), None)
    if fork is None:
        return "none of its stages has versions"
    for stage in pipeline.stages[fork.index :]:
        if not all(worker.repeatable for worker in stage.workers.values()):
            return f"what stage {stage.name!r} does may not be done twice"
    return ""
