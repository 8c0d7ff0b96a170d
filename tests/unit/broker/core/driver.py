"""Drives a real Scheduler by hand: numbers for time, and the invariants checked after every event.

Peers are names. What the broker sends to each gathers in `sent[peer]`; answers and batches are also
sorted out for the tests to look at. `settle` asserts that every submitted request was answered
exactly once, unless its client or its gateway left it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from broker.core.config import PipelineConfig, StageConfig
from broker.core.events import (
    Action,
    Asked,
    Comparing,
    DrainAsked,
    Event,
    Misbehaved,
    Note,
    PeerLost,
    Received,
    Reply,
    Save,
    Send,
    Stop,
)
from broker.core.invariants import check
from broker.core.item import Item
from broker.core.peers import Gateway
from broker.core.scheduler import Scheduler
from broker.core.traffic import Traffic
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Answer,
    Answers,
    Ask,
    Batch,
    Cancel,
    Failure,
    FromBroker,
    GatewayBeat,
    GatewayHello,
    Outcome,
    Payload,
    Priority,
    Report,
    Results,
    Step,
    Steps,
    Streamed,
    Submit,
    SubmitItem,
    SupervisorBeat,
    SupervisorHello,
    ToBroker,
    Value,
    Values,
    VersionReport,
    VersionState,
    WorkerHealth,
    WorkerHello,
    WorkerReport,
)

EPOCH = 7
START = 100.0
BEAT_EVERY = 0.5

M = TypeVar("M", bound=FromBroker)


def pipeline(*chain: str, stages: dict[str, StageConfig] | None = None, **keys: Any) -> Any:
    """A PipelineConfig, short to write."""
    return PipelineConfig(chain=chain, stages=stages or {}, **keys)


class Driver:
    """A broker without sockets, and the peers that talk to it."""

    def __init__(
        self,
        *,
        now: float = START,
        epoch: int = EPOCH,
        traffic: dict[str, Traffic] | None = None,
        measured: bool = True,
        **pipelines: Any,
    ) -> None:
        self.now = now
        self.epoch = epoch
        self.pipelines: dict[str, PipelineConfig] = pipelines or {"p": pipeline("a")}
        self.scheduler = Scheduler(
            self.pipelines, epoch=epoch, now=now, traffic=traffic, measured=measured
        )
        self.ledger = self.scheduler.ledger
        self.check_each = 1
        self.events = 0
        self.sent: defaultdict[bytes, list[FromBroker]] = defaultdict(list)
        self.batches: defaultdict[bytes, list[Batch]] = defaultdict(list)
        self.answers: defaultdict[tuple[bytes, int], list[Answer]] = defaultdict(list)
        self.values: defaultdict[tuple[bytes, int], list[Value]] = defaultdict(list)
        self.owed: set[tuple[bytes, int]] = set()  # submitted, and not given up by the client
        self.notes: list[Note] = []
        self.misbehaved: list[Misbehaved] = []
        self.others: list[Action] = []
        self.stops = 0
        self.gateways: list[bytes] = []
        self.supervised: dict[bytes, list[bytes]] = {}  # supervisor: its workers
        self.repositories: dict[bytes, list[VersionReport]] = {}  # what they have on disk
        self.saves: list[Save] = []
        self.reports: defaultdict[bytes, list[Report]] = defaultdict(list)  # by who asked
        self.holding: defaultdict[bytes, list[int]] = defaultdict(list)
        self.silent: set[bytes] = set()
        self._seqs: defaultdict[bytes, int] = defaultdict(int)
        self._beat_at = now + BEAT_EVERY

    # -------------------------------------------------------------- events

    def event(self, event: Event) -> list[Action]:
        """Hand one event over, and look whether the books still agree."""
        actions = self.scheduler.handle(event, self.now)
        self._after(actions)
        return actions

    def receive(self, peer: bytes, message: ToBroker) -> None:
        self.event(Received(peer, message))

    def tick(self, passed_s: float = 0.0) -> None:
        """Let time pass, with nobody saying a word, and end a turn."""
        self.now += passed_s
        self._after(self.scheduler.tick(self.now))

    def _after(self, actions: list[Action]) -> None:
        self.events += 1
        if self.events % self.check_each == 0:
            check(self.ledger)
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        if isinstance(action, Send):
            self._deliver(action.peer, action.message)
        elif isinstance(action, Reply):
            self._deliver(action.asker, action.message)
        elif isinstance(action, Save):
            self.saves.append(action)
            if action.report is not None:
                self.reports[action.reply_to].append(action.report)
        elif isinstance(action, Note):
            self.notes.append(action)
        elif isinstance(action, Misbehaved):
            self.misbehaved.append(action)
        elif isinstance(action, Stop):
            self.stops += 1
        elif isinstance(action, Comparing):
            self.others.append(action)

    def _deliver(self, peer: bytes, message: FromBroker) -> None:
        self.sent[peer].append(message)
        if isinstance(message, Batch):
            self.batches[peer].append(message)
            self.holding[peer].append(message.lease)
        elif isinstance(message, Answers):
            for answer in message.answers:
                self.answers[peer, answer.seq].append(answer)
        elif isinstance(message, Values):
            for value in message.values:
                ended = self.answers.get((peer, value.seq))
                assert not ended, "a value behind the end"
                self.values[peer, value.seq].append(value)
        elif isinstance(message, Report):
            self.reports[peer].append(message)

    def run(self, seconds: float, *, beats: bool = True) -> None:
        """Let time pass as the shell would: a tick whenever one is due, beats of all peers."""
        until = self.now + seconds
        while True:
            due = min(self.scheduler.next_deadline(), self._beat_at)
            if due > until:
                self.now = until
                return
            self.now = max(due, self.now)
            if self.now >= self._beat_at:
                self._beat_at = self.now + BEAT_EVERY
                if beats:
                    self.beat()
            self.tick()

    def beat(self) -> None:
        """Everyone who is not silent says that it is alive."""
        for gateway in self.gateways:
            if gateway not in self.silent:
                self.receive(gateway, GatewayBeat(self.epoch))
        for supervisor, workers in self.supervised.items():
            if supervisor not in self.silent:
                reports = [WorkerReport(w, WorkerHealth.ALIVE) for w in workers]
                versions = self.repositories.get(supervisor, [])
                self.receive(supervisor, SupervisorBeat(self.epoch, reports, versions=versions))

    # -------------------------------------------------------------- peers

    def gateway(self, id: bytes = b"g1") -> bytes:
        self.receive(id, GatewayHello(PROTOCOL_VERSION, "host", 1))
        self.gateways.append(id)
        return id

    def supervisor(
        self, id: bytes = b"s1", stage: str = "a", pipeline: str = "", **keys: Any
    ) -> bytes:
        self.receive(id, SupervisorHello(PROTOCOL_VERSION, stage, pipeline, pid=2, **keys))
        self.supervised.setdefault(id, [])
        return id

    def models(self, id: bytes = b"s1", **states: VersionState | str) -> None:
        """A supervisor's model repository has these versions: v2=READY, v3="why it failed"."""
        self.repositories[id] = [
            VersionReport(name[1:], VersionState.FAILED, state)
            if isinstance(state, str)
            else VersionReport(name[1:], state)
            for name, state in states.items()
        ]
        self.beat()

    def worker(
        self, id: bytes = b"w1", stage: str = "a", *, by: bytes = b"s1", **keys: Any
    ) -> bytes:
        """A ready worker, its supervisor with it."""
        if by not in self.supervised:
            self.supervisor(by, stage, keys.get("pipeline", ""), version=keys.get("version", ""))
        keys.setdefault("ready", True)
        self.receive(id, WorkerHello(PROTOCOL_VERSION, by, stage, pid=3, **keys))
        if id not in self.supervised[by]:
            self.supervised[by].append(id)
        return id

    def lose(self, worker: bytes, reason: str = "no connection") -> None:
        """The socket finds no route to it."""
        self.forget(worker)
        self.event(PeerLost(worker, reason))

    def forget(self, worker: bytes) -> None:
        """Nobody speaks for this worker any longer."""
        self.batches.pop(worker, None)
        self.holding.pop(worker, None)
        for workers in self.supervised.values():
            if worker in workers:
                workers.remove(worker)

    def drain(self) -> None:
        self.event(DrainAsked())

    # -------------------------------------------------------------- operations

    def ask(self, what: str, asker: bytes = b"cli", /, **body: Any) -> None:
        """Ask for an operation; what comes of it gathers in `reports`."""
        ask = Ask(PROTOCOL_VERSION, what, msgspec.json.encode(body))
        self.event(Asked(asker, ask))

    def document(self, asker: bytes = b"cli") -> dict[str, Any]:
        """The traffic as an asker was told last."""
        report = self.reports[asker].pop()
        assert not report.code, report.message
        document: dict[str, Any] = msgspec.json.decode(report.body)
        return document

    def traffic(self, pipeline: str = "p") -> dict[str, Any]:
        """The traffic document, asked for."""
        self.ask("traffic", b"looker", pipeline=pipeline)
        return self.document(b"looker")

    def states(self, pipeline: str = "p") -> dict[str, str]:
        """The state of each version that is known."""
        return {each["version"]: each["state"] for each in self.traffic(pipeline)["versions"]}

    def shares(self, pipeline: str = "p") -> dict[str, float]:
        """What each version gets now, in percent; those that get nothing left out."""
        versions = self.traffic(pipeline)["versions"]
        return {each["version"]: each["share"] for each in versions if each["share"]}

    def refused(self, asker: bytes = b"cli") -> str:
        """Why what was asked for was not done."""
        report = self.reports[asker].pop()
        assert report.code, report.body
        return report.message

    # -------------------------------------------------------------- requests

    def submit(
        self,
        count: int = 1,
        *,
        gateway: bytes = b"g1",
        pipeline: str = "p",
        left_s: float = 10.0,
        client: int = 0,
        priority: int = Priority.NORMAL,
        version: str = "",
        key: int = 0,
        again: bool = False,
        payload: Payload | None = None,
        tick: bool = True,
        others: int = -1,
    ) -> list[int]:
        """Submit some requests in one message; returns their numbers."""
        items = []
        for _ in range(count):
            self._seqs[gateway] += 1
            seq = self._seqs[gateway]
            body = b"%d" % seq if payload is None else payload
            items.append(
                SubmitItem(
                    seq, pipeline, body, b"meta", left_s, client, priority, version, again, key
                )
            )
        self.submit_items(items, gateway=gateway, tick=tick, others=others)
        return [item.seq for item in items]

    def submit_items(
        self,
        items: Sequence[SubmitItem],
        *,
        gateway: bytes = b"g1",
        tick: bool = True,
        others: int = -1,
    ) -> None:
        self.owed.update((gateway, item.seq) for item in items)
        self.receive(gateway, Submit(self.epoch, list(items), others=others))
        if tick:
            self.tick()

    def cancel(self, *seqs: int, gateway: bytes = b"g1") -> None:
        self.owed.difference_update((gateway, seq) for seq in seqs)
        self.receive(gateway, Cancel(self.epoch, list(seqs)))

    def take(self, worker: bytes = b"w1") -> Batch:
        """The oldest batch that this worker was sent and did not answer."""
        return self.batches[worker].pop(0)

    def answer(
        self,
        worker: bytes,
        batch: Batch,
        outcome: Callable[[Payload], Outcome] = lambda payload: payload,
        *,
        run_s: float = 0.001,
        sample: bool = True,
        tick: bool = True,
    ) -> None:
        """Send the results of a batch."""
        outcomes = [outcome(item.payload) for item in batch.items]
        if batch.lease in self.holding[worker]:
            self.holding[worker].remove(batch.lease)
        self.receive(worker, Results(batch.epoch, batch.lease, outcomes, run_s, sample))
        if tick:
            self.tick()

    def finish(self, worker: bytes = b"w1", *, after_s: float = 0.0, **keys: Any) -> Batch:
        """The worker's oldest batch is done, this much later."""
        batch = self.take(worker)
        self.now += after_s
        self.answer(worker, batch, **keys)
        return batch

    def finish_all(self, *, rounds: int = 1000) -> None:
        """Let all workers answer all they are sent, until nobody has any."""
        for _ in range(rounds):
            busy = [worker for worker, batches in self.batches.items() if batches]
            if not busy:
                return
            for worker in busy:
                if self.batches[worker]:
                    self.finish(worker)
        raise AssertionError("it does not end")

    # -------------------------------------------------------------- streams

    def stream(self, worker: bytes = b"w1") -> Batch:
        """All items of the worker's oldest batch are answered value by value."""
        batch = self.take(worker)
        self.answer(worker, batch, lambda _: Streamed(), sample=False)
        return batch

    def step(
        self,
        batch: Batch,
        number: int,
        outcome: Outcome,
        *,
        place: int = 0,
        worker: bytes = b"w1",
        tick: bool = True,
    ) -> None:
        """A stream of that batch has come to this."""
        self.receive(worker, Steps(self.epoch, [Step(batch.lease, place, number, outcome)]))
        if tick:
            self.tick()

    def streamed(self, seq: int, gateway: bytes = b"g1") -> list[Payload]:
        """The values that a request has been answered with so far."""
        values = self.values[gateway, seq]
        assert [value.number for value in values] == list(range(1, len(values) + 1))
        return [value.payload for value in values]

    # -------------------------------------------------------------- looking

    def told(self, peer: bytes, kind: type[M]) -> list[M]:
        """What of this kind was sent to a peer."""
        return [message for message in self.sent[peer] if isinstance(message, kind)]

    def the_answer(self, seq: int, gateway: bytes = b"g1") -> Answer:
        """The one answer to a request."""
        (answer,) = self.answers[gateway, seq]
        return answer

    def result(self, seq: int, gateway: bytes = b"g1") -> Outcome:
        return self.the_answer(seq, gateway).outcome

    def failure(self, seq: int, gateway: bytes = b"g1") -> ErrorCode:
        """Which error of ours answered a request."""
        outcome = self.result(seq, gateway)
        assert isinstance(outcome, Failure), f"{seq} was answered with {outcome!r}"
        return ErrorCode(outcome.code)

    def items(self, gateway: bytes = b"g1") -> dict[int, Item]:
        """What the broker holds for a gateway."""
        peer = self.ledger.peers[gateway]
        assert isinstance(peer, Gateway)
        return peer.items

    def answered(self, gateway: bytes = b"g1") -> list[int]:
        """The numbers of all requests that have an answer, in its order."""
        return [seq for (to, seq), given in self.answers.items() if to == gateway and given]

    def payloads(self, worker: bytes = b"w1") -> list[list[int]]:
        """The batches that a worker holds, as the numbers that its payloads show."""
        return [[number(item.payload) for item in batch.items] for batch in self.batches[worker]]

    # -------------------------------------------------------------- the end

    def settle(self) -> None:
        """Assert that every request that is no longer held had its one answer."""
        check(self.ledger)
        postponed = 0  # a gateway would submit these again
        for gateway, seq in self.owed:
            given = len(self.answers.get((gateway, seq), []))
            peer = self.ledger.peers.get(gateway)
            if not isinstance(peer, Gateway):
                assert given <= 1, f"{gateway!r} {seq} was answered {given} times"
                continue
            held = seq in peer.items or any(answer.seq == seq for answer in peer.answers)
            postponed += not given + held
            assert given + held <= 1, f"{gateway!r} {seq}: {given} answers, held: {held}"
        assert postponed <= self.ledger.counters["postponed"], "requests have got lost"
        for key, all_given in self.answers.items():
            assert len(all_given) <= 1, f"{key} was answered {len(all_given)} times"


def number(payload: Payload) -> int:
    """The request's number, which is its payload."""
    assert isinstance(payload, bytes)
    return int(payload)
