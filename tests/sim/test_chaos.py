"""The schedules of `make chaos` in virtual time, as they are and at a hundred times the scale.

The real state machines, under a load that never ends, in a net that is like ZeroMQ, with shared
memory. That an answer is the first one, comes in time and is the request's own is asserted where it
arrives (`Request.settle`), that nothing is freed under a reader where it is freed (`Arena`).
"""

from collections import Counter
from collections.abc import Callable

from broker.core.config import PipelineConfig, StageConfig
from broker.wire.errors import ErrorCode
from tests.chaos.schedule import DOWN_S, POISONS, ROLLOUTS, Fault, Kind, draw
from tests.sim.broker_node import BrokerNode
from tests.sim.gateway_node import GatewayNode, Request
from tests.sim.worker_nodes import DEADLY, HANGING, RAISING, Speed, SupervisorNode, WorkerNode
from tests.sim.world import Net, Node, World

CHAIN = ("first", "second", "third")
DEADLINES_S = (1.0, 2.0, 5.0)
CALM_S = 6.0
"""Some time after the last fault requests must be served as if nothing had been; and after the last
request there is as much time for it to be over.
"""
FLOOD = 40
HELD_S = 0.001
"""After so long clients vanish: their request is under way."""
POLL_S = 0.05

CONFIG = PipelineConfig(
    chain=CHAIN, stages={stage: StageConfig(forward_timeout_s=1.5) for stage in CHAIN}
)
TEXTS = {
    Kind.POISON_DIE: DEADLY,
    Kind.POISON_SEGFAULT: DEADLY,
    Kind.POISON_HANG: HANGING,
    Kind.POISON_RAISE: RAISING,
    Kind.POISON_MEMORY: RAISING,
}
REFUSALS = {
    None,
    ErrorCode.DEADLINE_EXCEEDED,
    ErrorCode.DRAINING,
    ErrorCode.NOT_READY,
    ErrorCode.OVERLOADED,
}
"""What may become of a request that harms nobody."""


class Fleet:
    """A deployment, its load, and what goes wrong with it."""

    def __init__(
        self, seed: int, *, seconds: float, scale: int, supervisors: int, gateways: int, rate: float
    ) -> None:
        """Of each stage there are so many `supervisors`, with two workers each; `rate` is that of
        the requests.
        """
        self.seconds = seconds
        self.world = World(seed)
        self.world.net = Net(ordered=True)
        self.rng = self.world.rng
        self.broker = BrokerNode(self.world, {"chain": CONFIG}, check_each=5000, shares=True)
        self.supervisors: list[SupervisorNode] = []
        self.gateways: list[GatewayNode] = []
        self.usual: list[Request] = []
        self.poisons: list[Request] = []
        self.gone: set[bytes] = set()  # gateways that died with what they held
        self.done: Counter[Kind] = Counter()
        self._is_down = False  # the broker
        self._names = 0
        for stage in CHAIN:
            for _ in range(supervisors):
                self._start_supervisor(stage)
        for _ in range(gateways):
            self._start_gateway()
        self.world.run(1.0)
        self._rate = rate
        self._workers = len(self.workers())
        self._until_s = self.world.now + seconds + CALM_S
        self._load()
        self._happenings: dict[Kind, Callable[[Fault], object]] = {
            Kind.WORKER_KILLED: lambda f: (w := self._worker(f)).supervisor.kill(w),
            Kind.WORKER_DRAINED: lambda f: self._worker(f).drain(),
            Kind.WORKER_STOPPED: lambda f: self._stop(self._worker(f), f),
            Kind.STAGE_KILLED: self._kill_stage,
            Kind.SUPERVISOR_KILLED: self._kill_supervisor,
            Kind.SUPERVISOR_STOPPED: lambda f: self._stop(self._supervisor(f), f),
            Kind.SUPERVISOR_DRAINED: self._drain_supervisor,
            Kind.GATEWAY_KILLED: self._kill_gateway,
            Kind.GATEWAY_STOPPED: self._stop_gateway,
            Kind.GATEWAY_DRAINED: self._drain_gateway,
            Kind.BROKER_KILLED: self._end_broker,
            Kind.BROKER_STOPPED: self._stop_broker,
            Kind.BROKER_DRAINED: self._drain_broker,
            **dict.fromkeys(POISONS, self._poison),
            Kind.FLOOD: lambda _: [self._submit() for _ in range(FLOOD)],
            Kind.SLOW_CLIENTS: lambda _: None,  # what is not complete does not get so far
            Kind.VANISHING_CLIENTS: self._vanish,
            Kind.DISK_FULL: lambda _: None,  # nothing here writes a log
            Kind.MEMORY_FULL: lambda _: self.ask_claims(),
        }
        for fault in draw(seed, seconds=seconds, rate=1.0, scale=scale):
            self.world.after(fault.at_s, lambda fault=fault: self._happen(fault))  # type: ignore[misc]

    def _name(self, letter: str) -> bytes:
        self._names += 1
        return f"{letter}{self._names}".encode()

    def _start_supervisor(self, stage: str) -> None:
        speed = Speed(0.002, 0.0002, 16)
        self.supervisors.append(
            SupervisorNode(self.world, self._name("s"), stage=stage, workers=2, speed=speed)
        )

    def _start_gateway(self) -> None:
        self.gateways.append(GatewayNode(self.world, self._name("g")))

    # -------------------------------------------------------------- load

    def _load(self) -> None:
        self.usual.append(self._submit())
        if self.world.now < self._until_s:
            self.world.after(self.rng.expovariate(self._rate), self._load)

    def _submit(self, text: bytes = b"") -> Request:
        awake = [each for each in self.gateways if not each.stopped]
        if not awake:  # one more is started where nobody could come
            self._start_gateway()
            awake = self.gateways[-1:]
        return self.rng.choice(awake).submit(
            pipeline="chain",
            timeout_s=self.rng.choice(DEADLINES_S),
            text=text,
            large=self.rng.random() < 0.3,
        )

    # -------------------------------------------------------------- faults

    def _happen(self, fault: Fault) -> None:
        self.done[fault.kind] += 1
        self._happenings[fault.kind](fault)

    def _worker(self, fault: Fault) -> WorkerNode:
        workers = self.workers()
        return workers[fault.which % len(workers)]

    def workers(self) -> list[WorkerNode]:
        """All that live."""
        return [worker for each in self.supervisors for worker in each.workers.values()]

    def _supervisor(self, fault: Fault) -> SupervisorNode:
        return self.supervisors[fault.which % len(self.supervisors)]

    def _stop(self, node: Node, fault: Fault) -> None:
        node.stop()
        self.world.after(fault.for_s, node.go_on)

    def _kill_stage(self, fault: Fault) -> None:
        stage = CHAIN[fault.which % len(CHAIN)]
        for worker in self.workers():
            if worker.supervisor.stage == stage:
                worker.supervisor.kill(worker)

    def _kill_supervisor(self, fault: Fault) -> None:
        supervisor = self._supervisor(fault)
        supervisor.die()
        self.supervisors.remove(supervisor)
        self.world.after(fault.for_s, lambda: self._start_supervisor(supervisor.stage))

    def _drain_supervisor(self, fault: Fault) -> None:
        for worker in list(self._supervisor(fault).workers.values()):
            worker.drain()

    def _take_gateway(self, fault: Fault) -> GatewayNode:
        """Out of the list, where another will stand soon."""
        gateway = self.gateways.pop(fault.which % len(self.gateways))
        self.world.after(fault.for_s, self._start_gateway)
        return gateway

    def _kill_gateway(self, fault: Fault) -> None:
        gateway = self._take_gateway(fault)
        gateway.die()
        self.gone.add(gateway.id)

    def _drain_gateway(self, fault: Fault) -> None:
        if not self.gateways[fault.which % len(self.gateways)].stopped:
            self._take_gateway(fault).drain()

    def _stop_gateway(self, fault: Fault) -> None:
        gateway = self.gateways[fault.which % len(self.gateways)]
        for request in gateway.requests:
            if request.answer is None:
                request.due += fault.for_s  # nobody can answer while standing still
        self._stop(gateway, fault)

    def _end_broker(self, fault: Fault) -> None:
        """Killed, or drained: another comes after a while."""
        if not self._is_down:
            self._is_down = True
            self.broker.stop()
            self.world.after(fault.for_s + DOWN_S[1], self._start_broker)

    def _start_broker(self) -> None:
        self._is_down = False
        self.broker.restart()

    def _stop_broker(self, fault: Fault) -> None:
        epoch = self.broker.epoch

        def go_on() -> None:
            if self.broker.epoch == epoch and not (self._is_down or self.broker.ended):
                self.broker.go_on()

        if not self._is_down:
            self.broker.stop()
            self.world.after(fault.for_s, go_on)

    def _drain_broker(self, fault: Fault) -> None:
        epoch = self.broker.epoch

        def look() -> None:
            if self.broker.epoch != epoch:
                return
            if self.broker.ended:
                self._end_broker(fault)
            else:
                self.world.after(POLL_S, look)

        if not (self._is_down or self.broker.stopped):
            self.broker.drain()
            look()

    def _poison(self, fault: Fault) -> None:
        self.poisons.append(self._submit(TEXTS[fault.kind]))

    def _vanish(self, fault: Fault) -> None:
        gateway = self.gateways[fault.which % len(self.gateways)]
        if not gateway.stopped:
            request = gateway.submit(pipeline="chain", timeout_s=5.0, large=True)
            self.world.after(HELD_S, lambda: gateway.hang_up(request))

    # -------------------------------------------------------------- the end

    def ask_claims(self) -> None:
        """As when all arenas are full."""
        nodes: list[GatewayNode | WorkerNode] = [*self.gateways, *self.workers()]
        for node in nodes:
            if not node.stopped:
                node.ask_claims()

    def play(self) -> Counter[ErrorCode | None]:
        """Let it all happen, and look whether everybody was answered and nothing is left. Returns
        how often which code, None for a result, of requests whose gateway did not die first.
        """
        self.world.run(self.seconds + 2 * CALM_S)
        codes: Counter[ErrorCode | None] = Counter()
        for request in self.usual:
            if request.answer is None:
                assert request.name.split(b":")[0] in self.gone, f"{request.name!r} is lost"
            else:
                assert request.code in REFUSALS
                codes[request.code] += 1
        for gateway in self.gateways:
            assert len(gateway.table) == 0
            assert all(each.answer is not None or each.hung_up for each in gateway.requests)
        self.ask_claims()
        self.world.run(3.0)
        known = self.broker.scheduler.ledger.peers
        assert len(self.workers()) == self._workers
        assert all(worker.id in known for worker in self.workers()), "one of them hangs"
        self.broker.assert_empty()
        for arena in self.world.host.arenas.values():
            assert arena.alive, f"the file of arena {arena.id} is left behind"
            assert arena.slots == {}, f"arena {arena.id} leaks"
        return codes


def test_two_minutes_of_chaos() -> None:
    fleet = Fleet(2, seconds=120.0, scale=1, supervisors=2, gateways=3, rate=50.0)
    codes = fleet.play()
    assert set(fleet.done) == set(Kind) - set(ROLLOUTS)
    assert codes[None] > 0.9 * codes.total(), codes


def test_a_hundred_times_the_chaos() -> None:
    fleet = Fleet(1, seconds=8.0, scale=100, supervisors=34, gateways=20, rate=200.0)
    codes = fleet.play()
    assert fleet.done.total() > 1000
    assert codes[None] > 0.9 * codes.total(), codes
