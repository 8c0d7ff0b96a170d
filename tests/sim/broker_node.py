"""The broker of a simulation: the real scheduler, with the world for its socket."""

from typing import Any

from broker.core.config import PipelineConfig
from broker.core.events import Action, PeerLost, Received, Send
from broker.core.invariants import check
from broker.core.scheduler import Scheduler
from tests.sim.world import BROKER, Node, World


class BrokerNode(Node):
    """One broker process after the other, at one address."""

    def __init__(
        self, world: World, pipelines: dict[str, PipelineConfig], *, check_each: int = 1
    ) -> None:
        super().__init__(world, BROKER)
        self.pipelines = pipelines
        self.epoch = 0
        self.events = 0
        self.check_each = check_each
        self._in_turn = False
        self.restart()

    def restart(self) -> None:
        """A new life: everything is forgotten."""
        self.epoch += 1
        self.stopped = False
        self.mailbox.clear()
        self.scheduler = Scheduler(self.pipelines, epoch=self.epoch, now=self.now)
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

    def _perform(self, actions: list[Action]) -> None:
        self.events += 1
        if self.events % self.check_each == 0:
            check(self.scheduler.ledger)
        for action in actions:
            if isinstance(action, Send) and not self.world.send(
                BROKER, action.peer, action.message
            ):
                self._perform(
                    self.scheduler.handle(PeerLost(action.peer, "no connection"), self.now)
                )

    def assert_empty(self) -> None:
        """Nothing is held for anybody."""
        ledger = self.scheduler.ledger
        check(ledger)
        for pipeline in ledger.pipelines.values():
            assert (pipeline.items, pipeline.bytes) == (0, 0), pipeline.name
            for stage in pipeline.stages:
                assert (stage.queued, stage.leased, stage.suspects_out) == (0, 0, 0), stage.name
        assert ledger.leases == {}
        assert len(ledger.wheel) == 0
