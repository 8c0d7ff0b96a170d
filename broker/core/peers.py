"""Who is connected: gateways, workers and supervisors, as the broker knows them."""

from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.agreement import Agreement
from broker.core.item import Item, Lease
from broker.core.plugin_metrics import SeriesKey
from broker.core.states import WORKER_ROWS, WorkerState, WorkerTrigger, invalid
from broker.wire.messages import (
    Answer,
    GatewayHello,
    SlotKey,
    StreamKey,
    SupervisorHello,
    Value,
    VersionReport,
    WorkerHello,
)

if TYPE_CHECKING:
    from broker.core.mirror import Pair
    from broker.core.stage import Stage

Post: TypeAlias = tuple[bytes, int, str]
"""A place under a supervisor, by its number and version; when a worker dies there, its successor
takes it.
"""

_SERVING = (WorkerState.READY, WorkerState.DRAINING)


class Gateway:
    """One life of a gateway. `items` are those that it waits for, by its own numbers."""

    __slots__ = (
        "answers", "arena", "fetch", "heard", "hello", "id", "items", "others", "pairs", "restarts",
        "values",
    )  # fmt: skip

    def __init__(self, id: bytes, hello: GatewayHello, now: float) -> None:
        self.id = id
        self.hello = hello
        self.heard = now
        self.arena = 0
        self.items: dict[int, Item] = {}
        self.others = -1  # clients that wait for nothing, as of its last Submit; -1: unknown
        self.answers: list[Answer] = []  # ready to be sent at the end of this turn
        self.values: list[Value] = []  # of streams, to be sent before those
        self.fetch = False  # whether one of them refers to shared memory
        self.restarts: dict[int, int] = {}  # how often what it waits for has begun anew
        self.pairs: dict[int, Pair] = {}  # of these, what a copy was made of


class Worker:
    """One life of a worker process."""

    __slots__ = (
        "arena", "arena_limit_bytes", "arena_used_bytes", "batches", "busy", "busy_before_s",
        "busy_s", "concurrency", "cpu_s", "credit", "dismissed_at", "drain_since", "gauges",
        "heard", "hello", "id", "items", "kept", "leases", "leaving", "loading_since",
        "max_batch_size", "max_streams", "open", "pace", "post", "repeatable", "rss_bytes",
        "spoke", "stages", "state", "stop_told", "streams", "supervisor", "version",
    )  # fmt: skip

    def __init__(self, id: bytes, hello: WorkerHello, stages: list["Stage"], now: float) -> None:
        self.id = id
        self.heard = now
        self.stages = stages
        self.state = WorkerState.LOADING
        self.loading_since = now
        self.drain_since = now
        self.dismissed_at = -inf
        self.open = True  # whether work may be sent: a draining worker may be the last of its stage
        self.leases: dict[int, Lease] = {}  # oldest first
        self.streams: dict[StreamKey, Item] = {}
        self.spoke = now  # when it said something itself
        self.stop_told = -inf  # `spoke` as it was when it was last told to stop a stream
        self.arena = 0  # its own; while it has none it is sent bytes
        self.kept: set[SlotKey] = set()  # slots that it said it looks at, its leases aside
        self.batches = 0
        self.items = 0
        self.cpu_s: float | None = None  # as its supervisor said last; None: it has not yet
        self.arena_used_bytes = 0  # as it said last itself
        self.arena_limit_bytes = 0
        self.gauges: dict[SeriesKey, float] = {}  # of its plug-in's own metrics
        self.leaving = ""  # why it is to leave, as its supervisor says
        self.rss_bytes = 0  # as its supervisor said last
        self.busy_s = 0.0  # in batches that it has answered
        self.busy_before_s = 0.0  # at the last look, with what was under way
        self.busy = 0.0  # the share of its time of late, 0 to 1
        self.pace = 1.0  # how long its batches take lately, over what was expected of them
        self.learn(hello)

    def learn(self, hello: WorkerHello) -> None:
        """Take over what a HELLO says. One that holds something is as it was when it got that."""
        if self.leases:
            return
        self.hello = hello
        self.supervisor = hello.supervisor
        self.post: Post = (hello.supervisor, hello.index, hello.version)
        self.version = hello.version
        self.max_batch_size = max(1, hello.max_batch_size)
        self.concurrency = max(1, hello.concurrency)
        self.repeatable = hello.repeatable
        # What may not run twice is not sent ahead: when its worker dies, nobody could tell whether
        # it had begun.
        self.credit = self.concurrency + (1 if hello.repeatable else 0)
        self.max_streams = max(1, hello.max_streams)

    def advance(self, trigger: WorkerTrigger) -> None:
        """Take the one step that `trigger` means, or raise InvalidTransition."""
        self.state = WORKER_ROWS[self.state][trigger] or invalid(self.state, trigger, self)

    @property
    def serving(self) -> bool:
        """Whether it counts as ready: it may be sent work, now or when it has credit."""
        return self.open and self.state in _SERVING

    @property
    def may_be_stepping(self) -> bool:
        """Whether it may be busy with a stream: one that is open, or that it has been told to stop
        and has said nothing since.
        """
        return bool(self.streams) or self.stop_told == self.spoke

    @property
    def is_full(self) -> bool:
        """Whether it has so many streams that it begins nothing."""
        return len(self.streams) >= self.max_streams

    def look(self, step_s: float, now: float) -> None:
        """How busy it was in the last step of so many seconds."""
        begun_s = sum(now - lease.started for lease in self.running() if lease.started is not None)
        busy_s = self.busy_s + begun_s
        share = (busy_s - self.busy_before_s) / (step_s * self.concurrency)
        self.busy = min(max(share, 0.0), 1.0)
        self.busy_before_s = busy_s

    def running(self) -> list[Lease]:
        """Its oldest leases: those that it works on. The others were sent ahead."""
        leases = list(self.leases.values())
        return leases if len(leases) <= self.concurrency else leases[: self.concurrency]

    def __repr__(self) -> str:
        return f"<worker {self.id.hex()[:8]} {self.hello.stage} {self.state.name}>"


class Supervisor:
    """One life of a supervisor. `stages` is None until one of its workers knows its stage, and
    `deaf` has those of its workers that live and are not known, and since when nothing was heard of
    them. `versions` is what its model repository has, and `wanted` what it was told of that.
    """

    __slots__ = ("deaf", "heard", "hello", "id", "stages", "told_at", "versions", "wanted")

    def __init__(
        self, id: bytes, hello: SupervisorHello, stages: list["Stage"] | None, now: float
    ) -> None:
        self.id = id
        self.hello = hello
        self.stages = stages
        self.heard = now
        self.deaf: dict[bytes, float] = {}
        self.versions: list[VersionReport] = []
        self.wanted: tuple[set[str], set[str]] | None = None
        self.told_at = now


class Comparer:
    """One life of the process that compares answers. `waiting` are the pairs that it was sent and
    has said nothing of, by their numbers.
    """

    __slots__ = ("bytes", "heard", "id", "waiting")

    def __init__(self, id: bytes, now: float) -> None:
        self.id = id
        self.heard = now
        self.waiting: dict[int, Sent] = {}
        self.bytes = 0  # of these


class Sent(NamedTuple):
    """A pair at the comparer: where its verdict is counted, its bytes, and since when."""

    agreement: Agreement
    size: int
    at: float
