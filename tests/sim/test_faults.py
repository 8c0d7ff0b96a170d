"""Faults of every kind, at any moment, in any mixture: each request has exactly one answer.

Hypothesis draws the faults, the loss of the net and the load; the rest follows from the seed. That
an answer is the first one, comes in time, and is the request's own, is asserted where it arrives
(`Request.settle`); that the broker's books agree, after every event (`BrokerNode`). In an ordered
net the peers share memory: that nothing is freed under somebody who looks at it is asserted where
it is freed (`Arena`), and that everything is freed in the end, here.
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from broker.core.config import PipelineConfig, StageConfig
from broker.wire.errors import ErrorCode
from broker.wire.messages import Answer, Blob, Streamed
from tests.sim.broker_node import BrokerNode
from tests.sim.gateway_node import GatewayNode, Request, words
from tests.sim.worker_nodes import DEADLY, STREAMING, VALUES, Speed, SupervisorNode
from tests.sim.world import BROKER, Net, World

FAULTY_S = 12.0
"""For so long things go wrong."""
CALM_S = 25.0
"""And so long after it everything must be as if nothing had been."""
PATIENT_S = 100.0
"""The deadline of requests that outlive all faults."""

PIPELINES = {
    "one": PipelineConfig(chain=("a",)),
    "two": PipelineConfig(
        chain=("a", "b"), stages={"b": StageConfig(max_wait_ms=5.0, max_queue_items=6)}
    ),
}
LOST = {ErrorCode.WORKER_LOST, ErrorCode.WORKER_CRASHED}


class Fault(Struct, frozen=True):
    """Something that goes wrong at a moment, to one of its kind, for a while."""

    kind: str
    at_s: float
    which: int = 0
    for_s: float = 1.0


KINDS = (
    "worker dies",
    "worker stops",
    "worker drains",
    "supervisor dies",
    "supervisor stops",
    "broker stops",
    "broker restarts",
    "gateway is cut off",
    "worker is cut off",
    "supervisor is cut off",
    "clients hang up",
    "deadly request",
    "gateway dies",
)
FAULTS = st.builds(
    Fault,
    kind=st.sampled_from(KINDS),
    at_s=st.floats(0.0, FAULTY_S),
    which=st.integers(0, 11),
    for_s=st.sampled_from((0.05, 0.5, 1.5, 4.0)),
)
NETS = st.builds(
    Net,
    ordered=st.booleans(),
    drop=st.sampled_from((0.0, 0.01, 0.1)),
    double=st.sampled_from((0.0, 0.02, 0.1)),
    delay=st.sampled_from((0.0, 0.05, 0.3)),
    delay_s=st.sampled_from((0.05, 0.8)),
)


class Scene:
    """A deployment, its load, and what goes wrong."""

    def __init__(
        self,
        seed: int,
        net: Net,
        faults: list[Fault],
        *,
        rate: float,
        streams: bool = False,
    ) -> None:
        self._streams = streams
        self.world = World(seed)
        self.rng = self.world.rng
        self.shares = net.ordered  # in another net a slot may be named that was freed before
        self.broker = BrokerNode(self.world, PIPELINES, shares=self.shares)
        self.supervisors: list[SupervisorNode] = []
        self.gateways: list[GatewayNode] = []
        self.requests: list[Request] = []
        self.abandoned: list[Request] = []  # their gateway died
        self._names = 0
        for stage in "aab":
            self.supervise(stage)
        for _ in range(2):
            self.gateways.append(GatewayNode(self.world, self._name("g")))
        self.world.net = Net(ordered=net.ordered)
        self.world.run(1.0)
        self.world.net = net
        self._load(rate)
        for fault in faults:
            self.world.after(fault.at_s, lambda fault=fault: self._happen(fault))  # type: ignore[misc]

    def _name(self, letter: str) -> bytes:
        self._names += 1
        return f"{letter}{self._names}".encode()

    def supervise(self, stage: str) -> None:
        self.supervisors.append(
            SupervisorNode(
                self.world,
                self._name("s"),
                stage=stage,
                workers=2,
                # Where memory is shared, they look at it long enough to be caught at it.
                speed=Speed(0.04 if self.shares else 0.01, 0.002, 8 if stage == "a" else 4),
            )
        )

    # -------------------------------------------------------------- load

    def _load(self, rate: float) -> None:
        at = 0.0
        while at < FAULTY_S:
            self.world.after(at, self._submit)
            at += self.rng.expovariate(rate)

    def _submit(self, text: bytes = b"") -> None:
        gateway = self.rng.choice(self.gateways)
        if self._streams and self.rng.random() < 0.5:
            text += b" " + STREAMING
        self.requests.append(
            gateway.submit(
                pipeline=self.rng.choice(("one", "two")),
                timeout_s=self.rng.choice((0.05, 0.5, 2.0, PATIENT_S, PATIENT_S, PATIENT_S)),
                text=text,
                large=self.rng.random() < (0.8 if self.shares else 0.3),
            )
        )

    # -------------------------------------------------------------- faults

    def _happen(self, fault: Fault) -> None:
        happenings: dict[str, Callable[[Fault], None]] = {
            "worker dies": lambda _: self._with_worker(fault, lambda w: w.supervisor.kill(w)),
            "worker stops": lambda _: self._with_worker(fault, lambda w: self._stop(w, fault)),
            "worker drains": lambda _: self._with_worker(fault, lambda w: w.drain()),
            "supervisor dies": self._supervisor_dies,
            "supervisor stops": lambda _: self._stop(self._supervisor(fault), fault),
            "broker stops": lambda _: self._stop(self.broker, fault),
            "broker restarts": self._broker_restarts,
            "gateway is cut off": lambda _: self._cut_off(self._gateway(fault).id, fault),
            "worker is cut off": lambda _: self._with_worker(
                fault, lambda w: self._cut_off(w.id, fault)
            ),
            "supervisor is cut off": lambda _: self._cut_off(self._supervisor(fault).id, fault),
            "clients hang up": self._hang_up,
            "deadly request": lambda _: self._submit(DEADLY),
            "gateway dies": self._gateway_dies,
        }
        happenings[fault.kind](fault)

    def _supervisor(self, fault: Fault) -> SupervisorNode:
        return self.supervisors[fault.which % len(self.supervisors)]

    def _gateway(self, fault: Fault) -> GatewayNode:
        return self.gateways[fault.which % len(self.gateways)]

    def _with_worker(
        self, fault: Fault, do: Callable[[object], None] | Callable[..., None]
    ) -> None:
        workers = [w for supervisor in self.supervisors for w in supervisor.workers.values()]
        if workers:
            do(workers[fault.which % len(workers)])

    def _stop(self, node: SupervisorNode | BrokerNode, fault: Fault) -> None:
        node.stop()
        self.world.after(fault.for_s, node.go_on)

    def _cut_off(self, id: bytes, fault: Fault) -> None:
        self.world.net.cut_off.add(id)
        self.world.after(fault.for_s, lambda: self.world.net.cut_off.discard(id))

    def _supervisor_dies(self, fault: Fault) -> None:
        supervisor = self._supervisor(fault)
        supervisor.die()
        self.supervisors.remove(supervisor)
        self.world.after(fault.for_s, lambda: self.supervise(supervisor.stage))
        if not self.supervisors:
            self.supervise("a")

    def _broker_restarts(self, fault: Fault) -> None:
        self.broker.stop()  # what arrives meanwhile is lost with its mailbox

        def back() -> None:
            self.broker.restart()

        self.world.after(fault.for_s, back)

    def _hang_up(self, fault: Fault) -> None:
        gateway = self._gateway(fault)
        waiting = [request for request in gateway.requests if request.answer is None]
        for request in self.rng.sample(waiting, min(len(waiting), 5)):
            gateway.hang_up(request)

    def _gateway_dies(self, fault: Fault) -> None:
        gateway = self._gateway(fault)
        gateway.die()
        self.gateways.remove(gateway)
        self.abandoned += [request for request in gateway.requests if request.answer is None]
        self.gateways.append(GatewayNode(self.world, self._name("g")))

    # -------------------------------------------------------------- the end

    def play(self) -> None:
        """Let it all happen, then see that everybody was served."""
        world = self.world
        world.run(FAULTY_S)
        world.net = Net(ordered=world.net.ordered, cut_off=world.net.cut_off)
        world.run(CALM_S)
        for request in self.requests:
            if request in self.abandoned or request.hung_up:
                assert request.answer is None
                continue
            self._judge(request)
        for gateway in self.gateways:
            assert len(gateway.table) == 0
        self._ask_claims()
        self.broker.assert_empty()
        for arena in world.host.arenas.values():
            assert arena.alive, f"the file of arena {arena.id} is left behind"
            assert arena.slots == {}, f"arena {arena.id} leaks"

    def _ask_claims(self) -> None:
        """Nobody keeps an array any longer, and what was lost on the way is asked for."""
        workers = [w for supervisor in self.supervisors for w in supervisor.workers.values()]
        for gateway in self.gateways:
            gateway.ask_claims()
        for worker in workers:
            worker.ask_claims()
        self.world.run(3.0)

    def _judge(self, request: Request) -> None:
        """It was answered; and one with time enough by a result, unless workers died under it."""
        code = request.code
        patient = request.due > self.world.now
        if code is None:
            answer = request.answer
            chain = PIPELINES[request.item.pipeline].chain
            assert isinstance(answer, Answer)
            if isinstance(answer.outcome, Streamed):
                assert request.values == VALUES
                return
            assert isinstance(answer.outcome, bytes | Blob)
            said = words(answer.outcome)
            assert tuple(word.decode() for word in said[-len(chain) :]) == chain
        elif patient:
            assert code in LOST | {ErrorCode.NOT_READY}, f"{request.name!r}: {code.name}"
        else:
            assert code in LOST | {
                ErrorCode.NOT_READY,
                ErrorCode.DEADLINE_EXCEEDED,
                ErrorCode.OVERLOADED,
            }


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**32), NETS, st.lists(FAULTS, max_size=14))
@example(1, Net(), [])
@example(2, Net(drop=0.1, double=0.1, delay=0.3, delay_s=0.8), [])
@example(3, Net(), [Fault("broker restarts", 2.0 * n, for_s=0.5) for n in range(6)])
@example(4, Net(), [Fault("deadly request", 1.0 + 0.3 * n) for n in range(10)])
@example(5, Net(), [Fault("broker stops", 1.0, for_s=4.0), Fault("broker stops", 7.0, for_s=4.0)])
def test_whatever_fails_each_request_has_one_answer(
    seed: int, net: Net, faults: list[Fault]
) -> None:
    Scene(seed, net, faults, rate=25.0).play()


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_of_fault_again_and_again(kind: str) -> None:
    faults = [Fault(kind, 0.5 + 1.1 * n, which=n, for_s=0.8) for n in range(10)]
    Scene(7, Net(ordered=True), faults, rate=25.0).play()


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**32), NETS, st.lists(FAULTS, min_size=4, max_size=14))
@example(1, Net(), [])
@example(2, Net(drop=0.1, double=0.1, delay=0.3, delay_s=0.8), [])
@example(3, Net(ordered=True, drop=0.02), [Fault(kind, 0.5 + n) for n, kind in enumerate(KINDS)])
def test_whatever_fails_streams_are_in_order_and_end_once(
    seed: int, net: Net, faults: list[Fault]
) -> None:
    Scene(seed, net, faults, rate=6.0, streams=True).play()


def test_without_a_fault_every_stream_is_whole() -> None:
    scene = Scene(8, Net(ordered=True), [], rate=15.0, streams=True)
    scene.play()
    streamed = [request for request in scene.requests if request.values]
    assert len(streamed) > 50
    assert {request.code for request in streamed} == {None}


def test_a_new_broker_frees_nothing_that_a_stopped_worker_may_look_at() -> None:
    stops = [Fault("worker stops", 3.0 + 0.01 * n, which=n, for_s=9.0) for n in (0, 2, 4)]
    restart = Fault("broker restarts", 3.6, for_s=0.05)
    Scene(0, Net(ordered=True), [*stops, restart], rate=25.0).play()


def test_without_a_fault_nothing_is_ever_asked_for() -> None:
    scene = Scene(9, Net(ordered=True), [], rate=50.0)
    world = scene.world
    world.run(FAULTY_S + 5.0)
    assert world.host.read > 500
    for supervisor in scene.supervisors:
        for worker in supervisor.workers.values():
            worker.plugin.let_go()
            worker.tick()
    world.run(0.3)
    assert [arena for arena in world.host.arenas.values() if arena.slots] == []
    assert scene.broker.scheduler.ledger.slots.counts == {}


def test_without_a_fault_nobody_is_failed() -> None:
    scene = Scene(8, Net(), [], rate=100.0)
    scene.play()
    codes = {request.code for request in scene.requests if request.due - scene.world.now > 0.0}
    assert codes == {None}
    assert BROKER in scene.world.nodes
