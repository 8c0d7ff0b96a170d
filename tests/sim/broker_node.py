"""The broker of a simulation: the real scheduler, with the world for its socket and its arenas."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from broker.core.config import PipelineConfig
from broker.core.events import (
    Action,
    Asked,
    DrainAsked,
    PeerLost,
    Received,
    Reply,
    Save,
    Send,
    Stop,
    Swept,
)
from broker.core.invariants import check
from broker.core.scheduler import Scheduler
from broker.core.traffic import Traffic
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Answer,
    Answers,
    Ask,
    Batch,
    BatchItem,
    Blob,
    Compare,
    Failure,
    FromBroker,
    Report,
)
from tests.sim.memory import FOLDER, TOKEN
from tests.sim.world import BROKER, Node, World

SWEEP_S = 1.0


class BrokerNode(Node):
    """One broker process after the other, at one address."""

    def __init__(
        self,
        world: World,
        pipelines: dict[str, PipelineConfig],
        *,
        check_each: int = 5,
        shares: bool = False,
    ) -> None:
        """With `shares` its peers may have arenas. Every so many events the invariants are checked:
        what breaks one stays, and to check takes longer than all else."""
        super().__init__(world, BROKER)
        self.shares = shares
        self.ended = False
        """Whether it has drained, and is gone."""
        self.kept: dict[str, Traffic] = {}
        """What a store would have, through all lives."""
        self.reports: list[Report] = []
        """The answers to what was asked of it."""
        self.pipelines = pipelines
        self.on_event: Callable[[], None] = lambda: None
        """Called when something has happened to it."""
        self.epoch = 0
        self.events = 0
        self.check_each = check_each
        self._in_turn = False
        self.restart()
        if shares:
            world.after(SWEEP_S, self._sweep)

    def restart(self) -> None:
        """A new life: everything is forgotten."""
        self.epoch += 1
        self.stopped = self.ended = False
        self.mailbox.clear()
        arenas, token = (FOLDER, TOKEN) if self.shares else ("", "")
        self.scheduler = Scheduler(
            self.pipelines,
            epoch=self.epoch,
            now=self.now,
            arenas=arenas,
            token=token,
            traffic=dict(self.kept),
        )
        self.on_event()
        self.world.arm(self)

    def ask(self, what: str, **body: Any) -> None:
        """Ask for an operation, while it can be asked."""
        if not self.stopped:
            ask = Ask(PROTOCOL_VERSION, what, msgspec.json.encode(body))
            self._perform(self.scheduler.handle(Asked(b"command", ask), self.now))
            self.tick()
            self.world.arm(self)

    def drain(self) -> None:
        """SIGTERM."""
        self._perform(self.scheduler.handle(DrainAsked(), self.now))
        self.tick()
        self.world.arm(self)

    def receive(self, sender: bytes, message: Any) -> None:
        self._perform(self.scheduler.handle(Received(sender, message), self.now))
        if not self._in_turn:  # what arrives in one moment is taken in before the turn ends
            self._in_turn = True
            self.world.after(0.0, self._end_turn)

    def _end_turn(self) -> None:
        self._in_turn = False
        if not self.stopped:
            self.tick()
            self.world.arm(self)

    def tick(self) -> None:
        self._perform(self.scheduler.tick(self.now))

    def due(self) -> float:
        return self.scheduler.next_deadline()

    def _sweep(self) -> None:
        self.world.after(SWEEP_S, self._sweep)
        if not self.stopped:
            slots = self.scheduler.ledger.slots
            dead, alive = self.world.host.sweep(needed=slots.needed(), doubtful=slots.doubtful())
            self._perform(self.scheduler.handle(Swept(dead, alive), self.now))
            self.tick()
            self.world.arm(self)

    def _perform(self, actions: list[Action]) -> None:
        self.events += 1
        if self.events % self.check_each == 0:
            check(self.scheduler.ledger)
        self.on_event()
        lost: dict[bytes, tuple[int, ...]] = {}
        for action in actions:
            if isinstance(action, Stop):
                self.stopped = self.ended = True
            if isinstance(action, Save):
                self.kept[action.pipeline] = action.traffic
                if action.report is not None:
                    self.reports.append(action.report)
            if isinstance(action, Reply) and isinstance(action.message, Report):
                self.reports.append(action.message)
            if not isinstance(action, Send):
                continue
            message = self._fetch(action.message) if action.fetch else action.message
            if not self.world.send(BROKER, action.peer, message):
                unsent = (message.lease,) if isinstance(message, Batch) else ()
                lost[action.peer] = lost.get(action.peer, ()) + unsent
        for peer, leases in lost.items():
            self._perform(self.scheduler.handle(PeerLost(peer, "no connection", leases), self.now))

    def _fetch(self, message: FromBroker) -> FromBroker:
        """The message for a peer that maps no arenas."""
        if isinstance(message, Batch):
            return replace(message, items=[self._fetch_item(item) for item in message.items])
        if isinstance(message, Compare):  # where there is a shadow here, nobody has an arena
            return message
        assert isinstance(message, Answers)
        return replace(message, answers=[self._fetch_answer(each) for each in message.answers])

    def _fetch_item(self, item: BatchItem) -> BatchItem:
        payload = item.payload
        if not isinstance(payload, Blob) or not payload.refs:
            return item
        return replace(item, payload=self.world.host.fetch(payload))

    def _fetch_answer(self, answer: Answer) -> Answer:
        outcome = answer.outcome
        if not isinstance(outcome, Blob) or not outcome.refs:
            return answer
        fetched = self.world.host.fetch(outcome)
        lost = Failure(ErrorCode.WORKER_LOST, "its result is lost")
        return replace(answer, outcome=lost if fetched.refs else fetched)

    def assert_empty(self) -> None:
        """Nothing is held for anybody."""
        ledger = self.scheduler.ledger
        check(ledger)
        for pipeline in ledger.pipelines.values():
            assert (pipeline.items, pipeline.bytes) == (0, 0), pipeline.name
            for stage in pipeline.stages:
                assert (stage.queued, stage.leased, stage.suspects_out) == (0, 0, 0), stage.name
                assert stage.streaming == 0, stage.name
        assert ledger.leases == {}
        assert len(ledger.wheel) == 0
        assert ledger.slots.counts == {}
        assert ledger.slots.limbo == {}
        assert ledger.slots.free == set()
