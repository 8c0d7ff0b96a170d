"""Versions that come, go, die and are swapped under load, and brokers that restart between.

Every request has one answer (`Request.settle`), made by one version in all its stages, which is the
one that the answer names, was there at some moment between question and answer, and is the one that
was asked for, if any was. Who is sticky never sees both sides while nothing changes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from broker.core import traffic as t
from broker.core.config import PipelineConfig
from broker.core.traffic import Traffic
from broker.wire.errors import ErrorCode
from broker.wire.messages import Answer, Blob
from tests.sim.broker_node import BrokerNode
from tests.sim.gateway_node import GatewayNode, Request, words
from tests.sim.worker_nodes import Speed, SupervisorNode
from tests.sim.world import Net, World

CONFIG = PipelineConfig(chain=("pre", "infer", "post"))
VERSIONED = ("infer", "post")
VERSIONS = ("1", "2", "3")
FAULTY_S = 12.0
CALM_S = 15.0
PATIENT_S = 60.0
USERS = 40


class Event(Struct, frozen=True):
    """Something that happens to a version, or to the broker."""

    kind: str
    at_s: float
    which: int = 0
    for_s: float = 1.0


KINDS = (
    "version comes",
    "version leaves",
    "version dies",
    "worker dies",
    "worker drains",
    "broker restarts",
    "split",
    "latest",
    "rollback",
    "promote",
    "shadow",
)
EVENTS = st.builds(
    Event,
    kind=st.sampled_from(KINDS),
    at_s=st.floats(0.0, FAULTY_S),
    which=st.integers(0, 11),
    for_s=st.sampled_from((0.05, 0.5, 2.0)),
)


class Asked(Struct):
    """A request, what it wanted, and how the broker stood when it came."""

    request: Request
    at_s: float
    version: str
    key: int


class Rollouts:
    """A pipeline with versions, its users, and whoever rolls out."""

    def __init__(self, seed: int, events: list[Event], *, rate: float = 40.0) -> None:
        self.world = World(seed)
        self.world.net = Net(ordered=True)
        self.rng = self.world.rng
        self.broker = BrokerNode(self.world, {"p": CONFIG})
        self.broker.kept["p"] = t.stick(Traffic(), "header:X-User-Id")
        self.broker.restart()
        self.asked: list[Asked] = []
        self.states: list[tuple[float, object, frozenset[str]]] = []  # and since when
        self.fleets: dict[str, list[SupervisorNode]] = {}
        self._names = 0
        SupervisorNode(self.world, b"pre", stage="pre", workers=2, speed=Speed(0.001, 0.0005, 16))
        self.gateway = GatewayNode(self.world, b"g1")
        self.come("1")
        self.world.run(1.0)
        self.began = self.world.now
        self._note()
        self.broker.on_event = self._note
        at = 0.0
        while at < FAULTY_S:
            self.world.after(at, self._submit)
            at += self.rng.expovariate(rate)
        for event in events:
            self.world.after(event.at_s, lambda event=event: self._happen(event))  # type: ignore[misc]

    def come(self, version: str) -> None:
        """All that a version needs is started, unless it is there."""
        if version not in self.fleets:
            self._names += 1
            self.fleets[version] = [
                SupervisorNode(
                    self.world,
                    f"{stage}{version}.{self._names}".encode(),
                    stage=stage,
                    workers=2,
                    speed=Speed(0.004, 0.001, 8),
                    version=version,
                )
                for stage in VERSIONED
            ]

    def _submit(self) -> None:
        """One request: of a user, of nobody, or for a version."""
        kind = self.rng.random()
        version = self.rng.choice(VERSIONS) if kind < 0.1 else ""
        key = self.rng.randrange(1, USERS) if 0.1 <= kind < 0.6 else 0
        request = self.gateway.submit(
            pipeline="p", timeout_s=PATIENT_S, large=False, version=version, key=key
        )
        self.asked.append(Asked(request, self.world.now, version, key))

    def _note(self) -> None:
        """Note each state of the broker that decides who gets what."""
        rollout = self.broker.scheduler.ledger.pipelines["p"].rollout
        takes = frozenset(rollout.served | rollout.awaited)
        weights = tuple(sorted(rollout.traffic.weights.items()))
        state = (self.broker.epoch, weights, rollout.traffic.stable, takes)
        if not self.states or self.states[-1][1] != state:
            self.states.append((self.world.now, state, takes))

    # -------------------------------------------------------------- events

    def _happen(self, event: Event) -> None:
        version = VERSIONS[event.which % len(VERSIONS)]
        happenings: dict[str, Callable[[], object]] = {
            "version comes": lambda: self.come(version),
            "version leaves": lambda: self._end(version, SupervisorNode.leave),
            "version dies": lambda: self._end(version, SupervisorNode.die),
            "worker dies": lambda: self._with_worker(event, lambda w: w.supervisor.kill(w)),
            "worker drains": lambda: self._with_worker(event, lambda w: w.drain()),
            "broker restarts": lambda: self._restart(event),
            "split": lambda: self._ask(
                "traffic", weights={version: 30, VERSIONS[event.which % 2]: 70}
            ),
            "latest": lambda: self._ask("traffic", latest=True),
            "rollback": lambda: self._ask("rollback"),
            "promote": lambda: self._ask(
                "promote", version=version, steps=[10, 50, 100], every_s=event.for_s
            ),
            "shadow": lambda: self._ask("traffic", shadow=version),
        }
        happenings[event.kind]()

    def _end(self, version: str, end: Callable[[SupervisorNode], None]) -> None:
        for supervisor in self.fleets.pop(version, []):
            end(supervisor)

    def _ask(self, what: str, **body: object) -> None:
        self.broker.ask(what, pipeline="p", by="sim", **body)

    def _with_worker(self, event: Event, do: Callable[..., object]) -> None:
        workers = [
            worker for fleet in self.fleets.values() for each in fleet
            for worker in each.workers.values()
        ]  # fmt: skip
        if workers:
            do(workers[event.which % len(workers)])

    def _restart(self, event: Event) -> None:
        if not self.broker.stopped:
            self.broker.stop()
            self.world.after(event.for_s, self.broker.restart)

    # -------------------------------------------------------------- the end

    def play(self) -> Counter[str]:
        """Let it all happen; judge every answer. Returns how many each version has given."""
        world = self.world
        world.run(FAULTY_S)
        for version in VERSIONS[:2]:
            self.come(version)
        world.run(CALM_S)
        for _ in range(50):
            self._submit()
        last = self.asked[-50:]
        world.run(2.0)
        for each in self.asked:
            self._judge(each)
        assert {each.request.code for each in last if not each.version} == {None}
        self._judge_stickiness()
        self.broker.assert_empty()
        return Counter(
            answer.version
            for each in self.asked
            if isinstance(answer := each.request.answer, Answer) and each.request.code is None
        )

    def _judge(self, asked: Asked) -> None:
        request = asked.request
        if request.code is not None:
            allowed = {ErrorCode.NOT_READY, ErrorCode.WORKER_LOST}
            if asked.version:
                allowed |= {ErrorCode.UNKNOWN_VERSION}
            assert request.code in allowed, f"{request.name!r}: {request.code.name}"
            return
        answer = request.answer
        assert isinstance(answer, Answer)
        assert isinstance(answer.outcome, bytes | Blob)
        said = [word.decode() for word in words(answer.outcome)[-3:]]
        version = answer.version
        assert said == ["pre", f"infer:{version}", f"post:{version}"], request.name
        assert asked.version in ("", version)
        there = {
            each
            for takes in self._states_between(asked.at_s, request.answered_at)
            for each in takes
        }
        assert version in there, f"{request.name!r}: {version} was not there"

    def _states_between(self, begin: float, end: float) -> list[frozenset[str]]:
        """What was served then, a little time before and after included."""
        ends = [at for at, _, _ in self.states[1:]] + [float("inf")]
        return [
            takes
            for (at, _, takes), until in zip(self.states, ends, strict=True)
            if at <= end + 0.01 and until >= begin - 0.01
        ]

    def _judge_stickiness(self) -> None:
        changes = [at for at, _, _ in self.states[1:]]
        seen: defaultdict[tuple[object, int], set[str]] = defaultdict(set)
        for each in self.asked:
            answer = each.request.answer
            calm = not any(
                each.at_s - 0.1 <= at <= each.request.answered_at + 0.1 for at in changes
            )
            if each.key and each.request.code is None and calm:
                assert isinstance(answer, Answer)
                since = max(at for at, _, _ in self.states if at <= each.at_s)
                seen[since, each.key].add(answer.version)
        assert all(len(versions) == 1 for versions in seen.values()), "somebody saw both sides"


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**32), st.lists(EVENTS, max_size=14))
@example(1, [])
@example(2, [Event("version comes", 1.0, 1), Event("version leaves", 3.0, 0)])
@example(3, [Event("version comes", 1.0, 1), Event("split", 2.0, 0), Event("version dies", 4.0, 1)])
@example(
    4, [Event("version comes", 1.0, 1), *(Event("broker restarts", 2.0 + n) for n in range(6))]
)
@example(5, [Event("version comes", 0.0, 2), Event("rollback", 2.0), Event("latest", 3.0)])
def test_whatever_is_rolled_out_each_request_has_one_answer(seed: int, events: list[Event]) -> None:
    Rollouts(seed, events).play()


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_of_event_again_and_again(kind: str) -> None:
    events = [Event("version comes", 0.0, 1), Event("version comes", 0.5, 2)]
    events += [
        Event("split", 1.0, 1),
        Event("version comes", 5.0, 0),
        Event("version comes", 8.0, 1),
    ]
    events += [Event(kind, 1.5 + 0.7 * n, n, 0.3) for n in range(12)]
    Rollouts(7, events).play()


def test_a_version_is_swapped_without_a_failed_request() -> None:
    """2 comes beside 1, and takes over; 1 leaves; the same once more with 3."""
    events = [
        Event("version comes", 1.0, 1),
        Event("version leaves", 2.5, 0),
        Event("version comes", 4.0, 2),
        Event("version leaves", 5.5, 1),
    ]
    scene = Rollouts(8, events, rate=150.0)
    answered = scene.play()
    failed = [each for each in scene.asked if each.request.code and not each.version]
    assert failed == []
    assert set(answered) == {"1", "2", "3"}
    assert scene.broker.kept["p"].stable == "3"


def test_a_canary_gets_its_five_percent_and_its_users_stay() -> None:
    traffic = t.assign(t.take_over(Traffic(), "1"), {"1": 95, "2": 5})
    for sticky in (False, True):
        split = t.Split(traffic, {"1", "2"})
        world = World(3)
        keys = (world.rng.randrange(1, 2**64) if sticky else 0 for _ in range(20_000))
        got = sum(split.choose(key) == "2" for key in keys)
        assert abs(got - 1000) <= 3 * (20_000 * 0.05 * 0.95) ** 0.5


def test_nobody_comes_back_while_a_canary_grows() -> None:
    walk = t.promote(t.take_over(Traffic(), "1"), "2", steps=(1.0, 5.0, 25.0, 100.0), every_s=1.0)
    steps = [walk]
    while steps[-1].promotion is not None:
        steps.append(t.next_step(steps[-1]))
    splits = [t.Split(step, {"1", "2"}) for step in steps]
    for before, after in pairwise(splits):
        for key in range(1, 3000):
            assert before.choose(key) == "1" or after.choose(key) == "2"
