"""More work than can be done: what is answered in time stays near capacity, for whoever has a right
to it."""

from random import Random

import pytest

from broker.core.config import PipelineConfig
from broker.wire.messages import Priority
from tests.sim.broker_node import BrokerNode
from tests.sim.gateway_node import GatewayNode, Request
from tests.sim.worker_nodes import Speed, SupervisorNode
from tests.sim.world import World

BATCH = 16
WARM_S = 1.0
BURST_S = 2.0


class Mill:
    """A pipeline whose slow stage has one worker, whose speed and whose deadline are drawn."""

    def __init__(self, seed: int, chain: tuple[str, ...], *, max_items: int = 4096) -> None:
        rng = Random(seed)
        self.slow = Speed(rng.uniform(0.002, 0.02), rng.uniform(0.0001, 0.001), BATCH)
        self.timeout_s = rng.uniform(5.0, 8.0) * self.slow.run_s(BATCH)
        self.capacity = BATCH / self.slow.run_s(BATCH)
        self.world = World(seed)
        self.broker = BrokerNode(
            self.world, {"p": PipelineConfig(chain=chain, max_items=max_items)}, check_each=2000
        )
        quick = Speed(0.0002, 0.00002, BATCH)
        for stage in chain:
            speed = self.slow if stage == "slow" else quick
            id = stage.encode()
            SupervisorNode(self.world, id, stage=stage, workers=1, speed=speed)
        self.gateway = GatewayNode(self.world, b"g")
        self.world.run(WARM_S)

    def offer(
        self, times_capacity: float, *, client: int = 0, priority: int = 1, for_s: float = BURST_S
    ) -> list[Request]:
        """Poisson arrivals for a while; the list fills as they come."""
        requests: list[Request] = []

        def arrive() -> None:
            requests.append(
                self.gateway.submit(
                    pipeline="p",
                    timeout_s=self.timeout_s,
                    large=False,
                    client=client,
                    priority=priority,
                )
            )

        at = 0.0
        while (at := at + self.world.rng.expovariate(times_capacity * self.capacity)) < for_s:
            self.world.after(at, arrive)
        return requests


def in_time(requests: list[Request]) -> int:
    return sum(each.code is None and each.answered_at <= each.due for each in requests)


def waits(mill: Mill, requests: list[Request]) -> list[float]:
    """Seconds to each answer, refusals included, sorted."""
    return sorted(each.answered_at - (each.due - mill.timeout_s) for each in requests)


ONE = ("slow",)
THREE = ("first", "slow", "last")


@pytest.mark.parametrize(
    ("seed", "chain", "load"),
    [
        (0, ONE, 0.5), (1, ONE, 0.9), (2, ONE, 1.2), (3, ONE, 2.0), (4, ONE, 5.0),
        (5, THREE, 0.9), (6, THREE, 1.2), (7, THREE, 5.0),
    ],
)  # fmt: skip
def test_goodput(seed: int, chain: tuple[str, ...], load: float) -> None:
    mill = Mill(seed, chain)
    requests = mill.offer(load)
    mill.world.run(BURST_S + mill.timeout_s + 0.5)
    good = in_time(requests)
    if load < 1.0:
        assert good >= 0.99 * len(requests)
    else:
        assert good >= 0.97 * mill.capacity * BURST_S
        refused = waits(mill, [each for each in requests if each.code is not None])
        assert refused[len(refused) // 2] < 0.01
    mill.broker.assert_empty()


@pytest.mark.parametrize(("seed", "chain"), [(1, ONE), (2, THREE)])
def test_a_flood_leaves_a_quiet_client_its_share(seed: int, chain: tuple[str, ...]) -> None:
    mill = Mill(seed, chain, max_items=200)
    flood = mill.offer(20.0, client=1, for_s=1.0)
    quiet = mill.offer(0.1, client=2, for_s=1.0)
    mill.world.run(1.0 + mill.timeout_s + 0.5)
    assert in_time(quiet) >= 0.95 * len(quiet) > 0
    assert in_time(flood) + in_time(quiet) >= 0.97 * mill.capacity * 1.0


def test_priorities_hold_in_overload_and_low_is_not_starved() -> None:
    mill = Mill(3, ONE)
    low = mill.offer(1.0, priority=Priority.LOW)
    normal = mill.offer(1.0)
    high = mill.offer(0.3, priority=Priority.HIGH)
    mill.world.run(BURST_S + mill.timeout_s + 0.5)
    assert in_time(high) == len(high)
    # What runs and what was sent ahead go before it, and its own batch takes as long.
    assert waits(mill, high)[len(high) * 9 // 10] < 3.0 * mill.slow.run_s(BATCH)
    assert in_time(low) >= 0.02 * mill.capacity * BURST_S
    assert in_time(high) + in_time(normal) + in_time(low) >= 0.97 * mill.capacity * BURST_S


def test_the_end_of_a_burst_is_the_end_of_its_effects() -> None:
    mill = Mill(4, THREE)
    mill.offer(5.0, for_s=1.5)
    mill.world.run(1.5)
    after = mill.offer(0.9, for_s=2.0)
    mill.world.run(2.0 + mill.timeout_s + 0.5)
    settled = [each for each in after if each.due > mill.world.now - 2.0]
    assert in_time(settled) >= 0.99 * len(settled) > 0


def test_ten_thousand_clients_that_hang_up_leave_nothing_behind() -> None:
    mill = Mill(5, THREE, max_items=20_000)
    rng = mill.world.rng
    requests: list[Request] = []
    for _ in range(10_000):

        def come_and_go() -> None:
            request = mill.gateway.submit(pipeline="p", timeout_s=30.0, large=False)
            requests.append(request)
            mill.world.after(rng.expovariate(1.0), lambda: mill.gateway.hang_up(request))

        mill.world.after(rng.uniform(0.0, 5.0), come_and_go)
    mill.world.run(60.0)
    assert len(requests) == 10_000
    assert sum(each.hung_up for each in requests) > 1000
    assert all(each.hung_up or each.answer is not None for each in requests)
    mill.broker.assert_empty()
    assert len(mill.gateway.table) == 0
