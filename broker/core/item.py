"""The broker's unit, an item: one request's place in one pipeline; leases and streams."""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

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
    from broker.core.traces import ItemTrace


class Item(Struct, eq=False):
    """One admitted request. It is in exactly one place: a queue, a lease, or answered.

    (A Struct is made in a third of the time of a class, and there is one for each request.)
    """

    id: int  # in order of arrival
    gateway: "Gateway"
    seq: int
    pipeline: "Pipeline"
    stage: "Stage"
    payload: Payload
    meta: bytes
    body_size: int  # its gateway holds that until it is answered
    size: int  # bytes held for it, wherever they are
    deadline: float
    client: int
    priority: int
    version: str  # that it is for, in all its stages; "": none is known yet
    answered_by: str  # the latest versioned worker that ran it
    entered: float  # into its stage
    key: int = 0  # what its version was chosen by
    slots: tuple[SlotKey, ...] = ()  # held for it: those that its payload refers to
    state: ItemState = ItemState.QUEUED
    lane: "Lane | None" = None  # where it waits or waited last
    waits_in: "ClientQueue | None" = None  # and among whose items, while it has its turn
    lease: "Lease | None" = None
    stream: "Stream | None" = None
    attempts: int = 0  # runs in its stage that a worker did not survive
    exposures_s: tuple[float, ...] = ()  # how long it ran in each of these
    suspect: bool = False
    trace: "ItemTrace | None" = None
    spans: list[float] = []  # queue and run of each stage, seconds

    def advance(self, trigger: ItemTrigger) -> None:
        """Take the one step that `trigger` means, or raise InvalidTransition."""
        self.state = ITEM_ROWS[self.state][trigger] or invalid(self.state, trigger, self)

    def __repr__(self) -> str:
        return (
            f"<item {self.id} {self.pipeline.name}/{self.stage.name} {self.state.name} "
            f"attempts={self.attempts}>"
        )


class Lease(Struct, eq=False):
    """The record that a worker holds a batch."""

    id: int
    worker: "Worker"
    lane: "Lane"
    stage: "Stage"
    items: list[Item]
    size: int
    growth: int  # bytes that its results will take, as expected
    alone: bool  # a suspect runs by itself, and nothing is sent behind it
    sent: float
    slots: tuple[SlotKey, ...] = ()  # held for it: its worker looks at them
    fetch: bool = False  # its worker cannot look at them, and is sent bytes
    started: float | None = None  # when it came to be run, as far as the broker can know
    traced: "Sequence[tuple[Item, ItemTrace]]" = ()  # those of its items that are
    begun: bool = False  # its worker has said so, which it does while it has streams
    expires: float = inf  # forward_timeout_s after its start or last renewal
    missing: int = 0  # beats running in which its worker did not name it

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
