"""The broker's unit, an item: one request's place in one pipeline; leases and streams."""

from typing import TYPE_CHECKING

from broker.core.states import ITEM_ROWS, ItemState, ItemTrigger, invalid
from broker.wire.messages import Payload, SlotKey, StreamKey
from broker.wire.window import Window

DEFAULT_VERSION = "1"
"""What a pipeline serves whose workers name no version."""

ASKED = -1
"""The key of an item whose version was not chosen, but asked for."""

if TYPE_CHECKING:
    from broker.core.peers import Gateway, Worker
    from broker.core.queue import ClientQueue
    from broker.core.stage import Lane, Pipeline, Stage


class Item:
    """One admitted request. It is in exactly one place: a queue, a lease, or answered."""

    __slots__ = (
        "answered_by",
        "attempts",
        "body_size",
        "client",
        "deadline",
        "entered",
        "exposures_s",
        "gateway",
        "id",
        "key",
        "lane",
        "lease",
        "meta",
        "payload",
        "pipeline",
        "priority",
        "seq",
        "size",
        "slots",
        "spans",
        "stage",
        "state",
        "stream",
        "suspect",
        "version",
        "waits_in",
    )

    def __init__(
        self,
        *,
        id: int,
        gateway: "Gateway",
        seq: int,
        pipeline: "Pipeline",
        payload: Payload,
        meta: bytes,
        deadline: float,
        client: int,
        priority: int,
        version: str,
        now: float,
        key: int = 0,
    ) -> None:
        self.id = id  # in order of arrival
        self.gateway = gateway
        self.seq = seq
        self.pipeline = pipeline
        self.payload = payload
        self.meta = meta
        self.body_size = len(payload) + len(meta)  # its gateway holds that until it is answered
        self.size = self.body_size  # bytes held for it, wherever they are
        self.slots: tuple[SlotKey, ...] = ()  # held for it: those that its payload refers to
        self.deadline = deadline
        self.client = client
        self.priority = priority
        self.version = version  # that it is for, in all its stages; "": none is known yet
        self.key = key  # what that was chosen by
        self.answered_by = version or DEFAULT_VERSION  # the latest versioned worker that ran it
        self.state = ItemState.QUEUED
        self.stage: Stage = pipeline.stages[0]
        self.lane: Lane | None = None  # where it waits or waited last
        self.waits_in: ClientQueue | None = None  # and among whose items, while it has its turn
        self.lease: Lease | None = None
        self.stream: Stream | None = None
        self.entered = now  # into its stage
        self.attempts = 0  # runs in its stage that a worker did not survive
        self.exposures_s: tuple[float, ...] = ()  # how long it ran in each of these
        self.suspect = False
        self.spans: list[float] = []  # queue and run of each stage, seconds

    def advance(self, trigger: ItemTrigger) -> None:
        """Take the one step that `trigger` means, or raise InvalidTransition."""
        self.state = ITEM_ROWS[self.state][trigger] or invalid(self.state, trigger, self)

    def __repr__(self) -> str:
        return (
            f"<item {self.id} {self.pipeline.name}/{self.stage.name} {self.state.name} "
            f"attempts={self.attempts}>"
        )


class Lease:
    """The record that a worker holds a batch."""

    __slots__ = (
        "alone", "begun", "expires", "fetch", "growth", "id", "items", "lane", "missing", "sent",
        "size", "slots", "stage", "started", "worker",
    )  # fmt: skip

    def __init__(
        self, *, id: int, worker: "Worker", lane: "Lane", items: list[Item], alone: bool, now: float
    ) -> None:
        self.id = id
        self.worker = worker
        self.lane = lane
        self.stage = lane.stage
        self.items = items
        self.size = len(items)
        self.slots: tuple[SlotKey, ...] = ()  # held for it: its worker looks at them
        self.fetch = False  # its worker cannot look at them, and is sent bytes
        self.growth = self.stage.growth * self.size  # bytes that its results will take, as expected
        self.alone = alone  # a suspect runs by itself, and nothing is sent behind it
        self.sent = now
        self.started: float | None = None  # when it came to be run, as far as the broker can know
        self.begun = False  # its worker has said so, which it does while it has streams
        self.expires = float("inf")  # forward_timeout_s after its start or last renewal
        self.missing = 0  # beats running in which its worker did not name it

    def __repr__(self) -> str:
        return f"<lease {self.id} of {self.size} at {self.stage.name}>"


class Stream:
    """The record that a worker answers an item value by value."""

    __slots__ = ("due", "key", "missing", "opened", "values", "window", "worker")

    def __init__(self, worker: "Worker", key: StreamKey, *, due: float, now: float) -> None:
        self.worker = worker
        self.key = key
        self.opened = now
        self.due = due  # when it is given up, unless a value comes before
        self.values = 0  # that went out
        self.window = Window()  # of these, what its client has not taken yet
        self.missing = 0  # beats running in which its worker did not name it
