"""A fleet that nobody has: 200 workers, 20 pipelines, 20,000 requests, no fault."""

from collections import Counter

from broker.core.config import PipelineConfig
from tests.sim.broker_node import BrokerNode
from tests.sim.gateway_node import GatewayNode, Request
from tests.sim.worker_nodes import Speed, SupervisorNode
from tests.sim.world import World

PIPELINES = 20
WORKERS = 200
REQUESTS = 20_000
CHAIN = ("pre", "infer")


def test_a_large_fleet_serves_everybody() -> None:
    world = World(seed=1)
    names = [f"p{n}" for n in range(PIPELINES)]
    config = {name: PipelineConfig(chain=CHAIN) for name in names}
    broker = BrokerNode(world, config, check_each=5000)
    each = WORKERS // (PIPELINES * len(CHAIN))
    supervisors = [
        SupervisorNode(
            world,
            b"s%d%s" % (n, stage.encode()),
            stage=stage,
            pipeline=name,
            workers=each,
            speed=Speed(0.002, 0.0002, 16),
        )
        for n, name in enumerate(names)
        for stage in CHAIN
    ]
    gateways = [GatewayNode(world, b"g%d" % n) for n in range(4)]
    world.run(1.0)
    assert all(shown.ready for shown in broker.scheduler.snapshot(world.now).pipelines.values())

    requests: list[Request] = []

    def burst(size: int) -> None:
        for _ in range(size):
            gateway = world.rng.choice(gateways)
            pipeline = world.rng.choice(names)
            request = gateway.submit(pipeline=pipeline, timeout_s=10.0, large=False)
            requests.append(request)

    sent = 0
    while sent < REQUESTS:
        size = min(world.rng.randint(1, 60), REQUESTS - sent)
        world.after(sent * 5e-5, lambda size=size: burst(size))  # type: ignore[misc]
        sent += size
    world.run(4.0)

    assert len(requests) == REQUESTS
    assert Counter(request.code for request in requests) == {None: REQUESTS}
    broker.assert_empty()
    assert all(len(gateway.table) == 0 for gateway in gateways)
    workers = [worker for each in supervisors for worker in each.workers.values()]
    assert len(workers) == WORKERS
    assert sum(worker.items for worker in workers) == REQUESTS * len(CHAIN)
    assert min(worker.items for worker in workers) > 0, "nobody is left out"
    assert sum(worker.batches for worker in workers) < 0.7 * REQUESTS * len(CHAIN)
    waits = sorted(request.answered_at - (request.due - 10.0) for request in requests)
    assert waits[len(waits) // 2] < 0.05
