"""A shadow beside real requests: ten times as slow, dying all the time, and nobody notices.

And what the guard makes of one that answers otherwise.
"""

import pytest
from msgspec import structs

from broker.core import traffic as t
from broker.core.config import GuardConfig, PipelineConfig
from broker.core.traffic import Traffic
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Answer,
    Compare,
    Compared,
    ComparerHello,
    Verdict,
)
from tests.sim.broker_node import BrokerNode
from tests.sim.gateway_node import GatewayNode, Request
from tests.sim.worker_nodes import Speed, SupervisorNode
from tests.sim.world import BROKER, Net, Node, World

CONFIG = PipelineConfig(chain=("pre", "infer", "post"))
SECONDS = 10.0
RATE = 250.0
QUICK = Speed(0.001, 0.0005, 16)
SLOWER = 1.2
"""Of its time without a shadow, what the 99th percentile may take with one."""


class Scene:
    """Version 2 answers; version 3 takes ten times as long, and may be the shadow. `pre` and `post`
    are shared.
    """

    def __init__(self, shadow: str, config: PipelineConfig = CONFIG, seed: int = 11) -> None:
        self.world = World(seed)
        self.world.net = Net(ordered=True)
        self.broker = BrokerNode(self.world, {"p": config}, check_each=200)
        self.broker.kept["p"] = t.shadow(t.assign(Traffic(), {"2": 1}), shadow)
        self.broker.restart()
        self.gateway = GatewayNode(self.world, b"g1")
        for stage in ("pre", "post"):
            SupervisorNode(self.world, stage.encode(), stage=stage, workers=2, speed=QUICK)
        self.infer = {
            version: SupervisorNode(
                self.world,
                f"infer{version}".encode(),
                stage="infer",
                workers=2,
                speed=Speed(0.004 * times, 0.001 * times, 8),
                version=version,
            )
            for version, times in (("2", 1), ("3", 10))
        }
        self.sent: list[tuple[float, Request]] = []
        self.world.run(1.0)

    def play(self, seconds: float = SECONDS) -> float:
        """The 99th percentile of the times of all requests; version 2 answers each."""
        world = self.world
        at = 0.0
        while at < seconds:
            world.after(at, self._submit)
            at += world.rng.expovariate(RATE)
        world.run(seconds + 5.0)
        for _, request in self.sent:
            assert request.code is None
            assert isinstance(request.answer, Answer)
            assert request.answer.version == "2"
        times_s = sorted(request.answered_at - since for since, request in self.sent)
        return times_s[int(0.99 * len(times_s))]

    def _submit(self) -> None:
        request = self.gateway.submit(pipeline="p", timeout_s=10.0, large=False)
        self.sent.append((self.world.now, request))

    def copies(self) -> int:
        pipeline = self.broker.scheduler.ledger.pipelines["p"]
        return pipeline.agreements.of("2", "3").copies


class ComparerNode(Node):
    """Finds that so many of the pairs differ, by chance."""

    def __init__(self, world: World, unlike: float) -> None:
        super().__init__(world, b"comparer")
        self.unlike = unlike
        self._hello_at = self.now
        world.arm(self)

    def receive(self, sender: bytes, message: object) -> None:
        if isinstance(message, Compare):
            verdicts = [
                Verdict(pair.number, self.world.rng.random() >= self.unlike, "a", "b")
                for pair in message.pairs
            ]
            self.world.send(self.id, BROKER, Compared(message.epoch, verdicts))

    def tick(self) -> None:
        self._hello_at = self.now + 0.5
        self.world.send(self.id, BROKER, ComparerHello(PROTOCOL_VERSION, 1))

    def due(self) -> float:
        return self._hello_at


@pytest.fixture(scope="module")
def without() -> float:
    return Scene("").play()


def test_a_shadow_that_is_ten_times_slower_costs_users_nothing(without: float) -> None:
    scene = Scene("3")
    assert scene.play() <= SLOWER * without
    assert scene.copies() > 250


def test_a_shadow_that_dies_all_the_time_costs_users_nothing(without: float) -> None:
    scene = Scene("3")
    for number in range(int(SECONDS / 0.4)):
        scene.world.after(0.4 * number, lambda: _kill_one(scene.infer["3"]))
    assert scene.play() <= SLOWER * without
    assert scene.broker.scheduler.ledger.counters["killers"] == 0


def _kill_one(supervisor: SupervisorNode) -> None:
    for worker in list(supervisor.workers.values())[:1]:
        supervisor.kill(worker)


def guarded(unlike: float, seed: int) -> tuple[Traffic, int]:
    """What became of the traffic of a guarded pipeline whose shadow answers so often otherwise, and
    how many pairs were compared.
    """
    config = structs.replace(CONFIG, guard=GuardConfig(agreement=0.9))
    scene = Scene("3", config, seed)
    ComparerNode(scene.world, unlike)
    scene.play(6.0)
    figures = scene.broker.scheduler.ledger.pipelines["p"].agreements.of("2", "3")
    return scene.broker.kept["p"], figures.compared


def test_a_shadow_that_answers_otherwise_is_ended_and_users_see_none_of_it() -> None:
    traffic, compared = guarded(0.4, 1)
    assert (traffic.shadow, traffic.held, traffic.weights) == ("", ("3",), {"2": 1.0})
    assert traffic.rejected["3"].startswith("agreement: ")
    assert 50 <= compared < 400


@pytest.mark.parametrize("seed", [1, 2])
def test_a_shadow_that_agrees_just_often_enough_stays(seed: int) -> None:
    traffic, compared = guarded(0.1, seed)
    assert (traffic.shadow, traffic.rejected) == ("3", {})
    assert compared > 300
