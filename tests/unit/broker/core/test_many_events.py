"""Fifty thousand events through one core: everything that may happen, at random, seeded."""

from collections.abc import Callable
from random import Random

from broker.core.config import StageConfig
from broker.core.events import Swept
from broker.core.item import Item
from broker.core.peers import Worker
from broker.core.slots import slots_of
from broker.wire.errors import ErrorCode
from broker.wire.frames import blob
from broker.wire.messages import (
    Batch,
    Blob,
    Bye,
    Credit,
    Failure,
    GatewayBeat,
    Observations,
    Observed,
    Outcome,
    Payload,
    Ref,
    Reference,
    Renew,
    Step,
    Steps,
    Streamed,
    WorkerBeat,
    WorkerDraining,
)
from tests.unit.broker.core.driver import EPOCH, START, Driver, pipeline

Make = Callable[..., Driver]

EVENTS = 50_000
YOUNG_S = 5.0
"""So long a broker is young: `absent_s` of most of these pipelines."""
KILLER = b"kill"
"""Whoever runs a request with this body dies of it."""
STAGES = ("a", "b", "c", "d")
PIPELINES = {
    "one": pipeline("a", max_items=300),
    "two": pipeline("a", "b", attempts=2),
    "four": pipeline("a", "b", "c", "d", max_bytes=40_000, absent_s=0.5),
    "wait": pipeline(
        "b", "d", stages={"d": StageConfig(max_wait_ms=3.0, max_queue_items=5)}, max_items=200
    ),
    "slow": pipeline("c", stages={"c": StageConfig(forward_timeout_s=0.2)}),
}


class Torture:
    """Does one random thing after another to a broker."""

    def __init__(self, driver: Driver, seed: int) -> None:
        self.driver = driver
        self.rng = Random(seed)
        self.names = 0
        self.slots = 0
        self.late: list[tuple[bytes, Batch]] = []
        self.things: list[tuple[Callable[[], None], int]] = [
            (self.submit, 250),
            (self.finish, 560),
            (self.advance, 60),
            (self.cancel, 30),
            (self.join, 14),
            (self.die, 10),
            (self.leave, 3),
            (self.say, 60),
            (self.observe, 5),
            (self.late_results, 15),
            (self.sweep, 5),
            (self.gateway_comes, 2),
            (self.gateway_goes, 1),
        ]
        for stage in STAGES:
            for _ in range(3):
                self.join(stage)
        for _ in range(3):
            self.gateway_comes()

    def name(self, letter: bytes) -> bytes:
        self.names += 1
        return letter + b"%d" % self.names

    def step(self) -> None:
        doing, weights = zip(*self.things, strict=True)
        for do in self.rng.choices(doing, weights, k=self.rng.randint(2, 12)):
            do()
        self.driver.run(self.rng.choice((0.0, 0.0, 0.0005, 0.002, 0.01)))
        self.driver.tick()

    def slot(self) -> Payload:
        """A payload in a new slot of some arena."""
        self.slots += 1
        return blob(b"", [Ref(self.rng.randint(1, 30), 0, self.slots, 0, 500)])

    def workers(self) -> list[bytes]:
        return [worker for workers in self.driver.supervised.values() for worker in workers]

    # -------------------------------------------------------------- what may happen

    def submit(self) -> None:
        rng = self.rng
        if self.driver.gateways:
            version = rng.choice(("",) * 8 + ("1", "2", "3"))
            if self.driver.now < START + YOUNG_S:
                version = ""  # it might be left unanswered until its gateway brings it again
            self.driver.submit(
                rng.randint(1, 4),
                gateway=rng.choice(self.driver.gateways),
                pipeline=rng.choice((*PIPELINES, "two", "four", "nowhere")),
                left_s=rng.choice((-1.0, 0.005, 0.05, 0.3, 2.0, 10.0)),
                client=rng.randint(0, 3),
                priority=rng.randint(0, 2),
                version=version,
                # What a young broker postpones comes again with a beat, which nobody sends here.
                again=not version and rng.random() < 0.05,
                payload=KILLER if rng.random() < 0.01 else self.body(),
                tick=False,
            )

    def body(self) -> Payload | None:
        return self.rng.choice((None, b"x" * 500, self.slot()))

    def finish(self) -> None:
        busy = [worker for worker, batches in self.driver.batches.items() if batches]
        if busy:
            worker = self.rng.choice(busy)
            if any(item.payload == KILLER for item in self.driver.batches[worker][0].items):
                self.die(worker)
                return
            if self.driver.batches[worker][0].pipeline == "slow" and self.rng.random() < 0.1:
                self.driver.batches[worker].pop(0)  # it hangs
                return
            run_s = self.rng.choice((0.001, 0.002, 0.003, 0.5))
            self.driver.finish(worker, outcome=self.outcome, run_s=run_s, tick=False)

    def outcome(self, payload: Payload) -> Outcome:
        if self.rng.random() < 0.02:
            return Failure(ErrorCode.WORKER_ERROR, "it raised")
        if self.rng.random() < 0.03:
            return Streamed()
        if isinstance(payload, Blob) and self.rng.random() < 0.5:
            return self.slot()
        return payload

    def advance(self) -> None:
        """A stream comes to something, or its client takes something."""
        streaming = self.streaming()
        if not streaming:
            return
        worker, item = self.rng.choice(streaming)
        stream = item.stream
        assert stream is not None
        lease, place = stream.key
        number = stream.values + self.rng.choice((0, 1, 1, 1, 1, 1, 1, 1, 2))
        outcome = self.rng.choice((b"v" * 300, blob(b"", [b"v" * 5000]), self.slot(), Streamed()))
        if self.rng.random() < 0.8:
            self.driver.receive(worker, Steps(EPOCH, [Step(lease, place, number, outcome)]))
        elif item.gateway.id in self.driver.gateways:
            taken = self.rng.randint(0, stream.values + 1)
            self.driver.receive(item.gateway.id, Credit(EPOCH, [(item.seq, taken)]))

    def observe(self) -> None:
        """A worker tells what its plug-in observes."""
        workers = self.workers()
        if workers:
            value = self.rng.gauss(0.0, 1.0)
            observed = Observed("x", 3, value, 1.0, value - 1, value + 1, 1, [value] * 3)
            reference = Reference("x", 100, 0.0, 1.0, [-1.0, 1.0], [0.2, 0.6, 0.2])
            message = Observations(EPOCH, [observed], [reference] * self.rng.randint(0, 1))
            self.driver.receive(self.rng.choice(workers), message)

    def streaming(self) -> list[tuple[bytes, Item]]:
        """All open streams, with their workers."""
        peers = self.driver.ledger.peers.values()
        workers = [peer for peer in peers if isinstance(peer, Worker)]
        return [(worker.id, item) for worker in workers for item in worker.streams.values()]

    def cancel(self) -> None:
        gateway = self.rng.choice(self.driver.gateways or [b"?"])
        if gateway != b"?":
            held = list(self.driver.items(gateway))
            self.driver.cancel(*self.rng.sample(held, min(len(held), 2)), gateway=gateway)

    def join(self, stage: str = "") -> None:
        if stage or len(self.workers()) < 20:
            stage = stage or self.rng.choice(STAGES)
            self.driver.worker(
                self.name(b"w"),
                stage,
                by=b"s" + stage.encode(),
                ready=self.rng.random() < 0.9,
                max_batch_size=self.rng.choice((1, 2, 8)),
                concurrency=self.rng.choice((1, 1, 1, 3)),
                repeatable=self.rng.random() < 0.9,
                version=self.rng.choice(("", "", "1", "2")),
                timings=self.rng.choice(([], [(1, 0.001), (8, 0.002)])),
                arena=self.rng.choice((0, self.names)),
            )

    def die(self, worker: bytes = b"") -> None:
        if workers := self.workers():
            worker = worker or self.rng.choice(workers)
            self.late += [(worker, batch) for batch in self.driver.batches.get(worker, [])]
            self.driver.lose(worker)

    def leave(self) -> None:
        if workers := self.workers():
            worker = self.rng.choice(workers)
            if self.rng.random() < 0.5:
                ahead = [batch.lease for batch in self.driver.batches[worker][1:]]
                del self.driver.batches[worker][1:]
                self.driver.receive(worker, WorkerDraining(EPOCH, ahead))
            else:
                self.driver.forget(worker)
                self.driver.receive(worker, Bye(EPOCH))

    def say(self) -> None:
        if workers := self.workers():
            worker = self.rng.choice(workers)
            batches = self.driver.batches[worker]
            leases = [batch.lease for batch in batches]
            if leases and self.rng.random() < 0.5:
                self.driver.receive(worker, Renew(EPOCH, leases[0]))
            else:
                kept = [slot for b in batches for i in b.items for slot in slots_of(i.payload)]
                open_ = [item.stream for id, item in self.streaming() if id == worker]
                keys = [stream.key for stream in open_ if stream][: self.rng.randint(0, 9)]
                self.driver.receive(worker, WorkerBeat(EPOCH, leases, kept[:3], keys))
        for gateway in self.driver.gateways[:1]:
            self.driver.receive(gateway, GatewayBeat(EPOCH, [1, 2, 3]))

    def late_results(self) -> None:
        if self.late:
            worker, batch = self.late.pop(self.rng.randrange(len(self.late)))
            self.driver.answer(worker, batch, tick=False)

    def sweep(self) -> None:
        doubtful = sorted(self.driver.ledger.slots.doubtful())
        self.driver.event(Swept(doubtful[:2], doubtful[2:]))

    def gateway_comes(self) -> None:
        if len(self.driver.gateways) < 6:
            self.driver.gateway(self.name(b"g"))

    def gateway_goes(self) -> None:
        if len(self.driver.gateways) > 1:
            gateway = self.rng.choice(self.driver.gateways)
            self.driver.gateways.remove(gateway)
            self.driver.receive(gateway, Bye(EPOCH))

    # -------------------------------------------------------------- the end

    def calm_down(self) -> None:
        for _ in range(200):
            while any(self.driver.batches.values()) or self.streaming():
                self.finish()
                self.advance()
                self.driver.tick()
            for stage in STAGES:
                self.join(stage)
            self.driver.run(0.1)
            ledger = self.driver.ledger
            if not ledger.leases and not any(pipe.items for pipe in ledger.pipelines.values()):
                break
        for worker in self.workers():
            self.driver.receive(worker, WorkerBeat(EPOCH))
        self.driver.event(Swept(list(self.driver.ledger.slots.doubtful()), []))
        self.driver.tick()


def test_many_events(broker: Make) -> None:
    driver = broker(**PIPELINES)
    driver.check_each = 2000
    torture = Torture(driver, seed=20)
    while driver.events < EVENTS:
        torture.step()
    torture.calm_down()
    ledger = driver.ledger
    for pipe in ledger.pipelines.values():
        assert (pipe.items, pipe.bytes) == (0, 0)
        for stage in pipe.stages:
            assert (stage.queued, stage.leased, stage.suspects_out) == (0, 0, 0)
    assert ledger.leases == {}
    assert len(ledger.wheel) == 0
    assert ledger.slots.counts == {}
    assert ledger.slots.limbo == {}
    assert torture.slots > 10_000
    assert all(given for given in driver.answers.values())
    for what in (
        "requeued",
        "expired",
        "cancelled",
        "killers",
        "results_late_used",
        "workers_hung",
        "streams_broken",
    ):
        assert ledger.counters[what] > 0, f"it never came to {what}"


def test_what_happens_depends_on_nothing_but_the_events(broker: Make) -> None:
    def story() -> list[str]:
        driver = broker(**PIPELINES)
        driver.check_each = 50
        torture = Torture(driver, seed=5)
        while driver.events < 3000:
            torture.step()
        return [repr(message) for messages in driver.sent.values() for message in messages]

    assert story() == story()
