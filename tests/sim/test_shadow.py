"""A shadow beside real requests: ten times as slow, dying all the time, and nobody notices."""

import pytest

from broker.core import traffic as t
from broker.core.config import PipelineConfig
from broker.core.traffic import Traffic
from broker.wire.messages import Answer
from tests.sim.broker_node import BrokerNode
from tests.sim.gateway_node import GatewayNode, Request
from tests.sim.worker_nodes import Speed, SupervisorNode
from tests.sim.world import Net, World

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

    def __init__(self, shadow: str) -> None:
        self.world = World(11)
        self.world.net = Net(ordered=True)
        self.broker = BrokerNode(self.world, {"p": CONFIG}, check_each=200)
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

    def play(self) -> float:
        """The 99th percentile of the times of all requests; version 2 answers each."""
        world = self.world
        at = 0.0
        while at < SECONDS:
            world.after(at, self._submit)
            at += world.rng.expovariate(RATE)
        world.run(SECONDS + 5.0)
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
