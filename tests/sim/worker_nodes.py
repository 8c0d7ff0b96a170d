"""Workers and supervisors of a simulation: real sessions, around a plug-in that takes time."""

from collections.abc import Iterator
from typing import Any

from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    NO_EPOCH,
    PROTOCOL_VERSION,
    Batch,
    BatchItem,
    Failure,
    FromSupervisor,
    FromWorker,
    Outcome,
    Streamed,
    SupervisorHello,
    WorkerHealth,
    WorkerHello,
    WorkerReport,
)
from tests.sim.memory import Lost, NodeMemory, Plugin
from tests.sim.world import BROKER, Node, World
from workers.session import Held, Life, WorkerSession
from workers.streams import OpenStream
from workers.supervision import Excused, KillOrder, SupervisorSession

DEADLY = b"deadly"
"""A request that says this kills whoever runs it."""
HANGING = b"hanging"
"""One that says this is run for ever."""
RAISING = b"raising"
"""One that says this fails."""
STREAMING = b"streaming"
"""And one that says this is answered value by value, in the last stage."""
VALUES = 100
"""So many: more than a window."""
STEP_S = 0.01

RESTART_S = 0.2
SETUP_S = 0.1


class Speed:
    """t(b) = a + c·b of a plug-in."""

    def __init__(self, a_s: float, c_s: float, most: int) -> None:
        self.a_s = a_s
        self.c_s = c_s
        self.most = most

    def run_s(self, size: int) -> float:
        return self.a_s + self.c_s * size


class WorkerNode(Node):
    """One worker process. While it runs a batch it hears nothing, as in life."""

    def __init__(self, world: World, id: bytes, supervisor: "SupervisorNode") -> None:
        super().__init__(world, id)
        self.supervisor = supervisor
        self.speed = supervisor.speed
        hello = WorkerHello(
            PROTOCOL_VERSION,
            supervisor.id,
            supervisor.stage,
            supervisor.pipeline,
            supervisor.version,
        )
        self.memory = NodeMemory(world.host, id)
        self.plugin = Plugin(self.memory, world.rng)
        self.session = WorkerSession(hello, self.now, self.memory)
        self.batches = 0
        self.items = 0
        self.begun = (NO_EPOCH, 0)
        self._running: Held | None = None
        self._inputs: list[bytes | Failure] = []
        self._unheard: list[Any] = []
        self._streams: list[OpenStream] = []
        self._say(self.session.start(self.now))
        world.after(SETUP_S, self._warm)
        world.arm(self)

    def _warm(self) -> None:
        if self.alive:
            speed = self.speed
            self._say(
                self.session.warm(
                    self.now,
                    max_batch_size=speed.most,
                    concurrency=1,
                    repeatable=True,
                    timings=[(size, speed.run_s(size)) for size in (1, speed.most)],
                )
            )
            self._work()

    def receive(self, sender: bytes, message: Any) -> None:
        if self._running is not None:
            self._unheard.append(message)
            return
        self._say(self.session.receive(message, self.now))
        self._work()

    def tick(self) -> None:
        if self._running is None:
            self._say(self.session.tick(self.now))
            self._work()

    def due(self) -> float:
        return self.session.next_due() if self._running is None else float("inf")

    def drain(self) -> None:
        """SIGTERM."""
        self._say(self.session.drain(self.now))
        self._work()

    def _work(self) -> None:
        """Begin the next batch, if there is one."""
        if self.session.closed:
            self._say([self.session.leave()])
            self.supervisor.lost(self, "exit code 0")
            self.die()
            return
        if self._running is None and (held := self.session.take()) is not None:
            self._running = held
            self.begun = (held.batch.epoch, held.batch.lease)
            self._inputs = [self._read(held, item) for item in held.batch.items]
            self.world.after(self.speed.run_s(len(held.batch.items)), lambda: self._done(held))

    def _done(self, held: Held) -> None:
        if self.stopped and self.alive:
            self.world.after(0.05, lambda: self._done(held))  # it stands still in its forward
            return
        if not self.alive:
            return
        items = held.batch.items
        if self._is_asked_to(DEADLY):
            self.supervisor.lost(self, "signal 11")
            self.die()
            return
        if self._is_asked_to(HANGING):
            return
        self._running = None
        self.batches += 1
        self.items += len(items)
        outcomes = [
            self._outcome(held.batch, item, words)
            for item, words in zip(items, self._inputs, strict=True)
        ]
        self.plugin.end(held.batch.lease)
        opened = [
            OpenStream((held.batch.lease, place), self._values(words), "")
            for place, words in enumerate(self._inputs)
            if type(outcomes[place]) is Streamed and isinstance(words, bytes)
        ]
        self._say(
            self.session.finish(
                held,
                self.now,
                outcomes=outcomes,
                run_s=self.speed.run_s(len(items)),
                sample=True,
                content_type="",
                opened=opened,
            )
        )
        if opened and not self._streams:
            self.world.after(STEP_S, self._step)
        self._streams += opened
        unheard, self._unheard = self._unheard, []
        for message in unheard:
            self._say(self.session.receive(message, self.now))
        self._say(self.session.tick(self.now))
        self._work()
        self.world.arm(self)

    def _values(self, words: bytes) -> Iterator[bytes]:
        for number in range(1, VALUES + 1):
            yield b"%s %d" % (words.split()[0], number)

    def _step(self) -> None:
        """A round of all streams; while it runs a batch, or stands still, they wait."""
        if not self.alive:
            return
        if self._running is None and not self.stopped:
            for stream in self._streams:
                if stream.may_step:
                    value = next(stream.iterator, None)
                    outcome = Streamed(VALUES) if value is None else value
                    self.session.streams.advance(stream, outcome)
            self._streams = [stream for stream in self._streams if not stream.is_over]
            if self.session.streams.has_unsent:
                self._say(self.session.steps())
        if self._streams:
            self.world.after(STEP_S, self._step)

    def _is_asked_to(self, misdeed: bytes) -> bool:
        return any(isinstance(words, bytes) and misdeed in words.split() for words in self._inputs)

    def _read(self, held: Held, item: BatchItem) -> bytes | Failure:
        try:
            return self.plugin.read(held.batch.lease, item.payload)
        except Lost:
            return Failure(ErrorCode.PAYLOAD_LOST, "nothing is there")

    def _outcome(self, batch: Batch, item: BatchItem, words: bytes | Failure) -> Outcome:
        if isinstance(words, Failure):
            return words
        if STREAMING in words.split() and batch.last:
            return Streamed()
        if RAISING in words.split():
            return Failure(ErrorCode.WORKER_ERROR, "it raised")
        return self.plugin.write(item.payload, words, self.supervisor.mark)

    def die(self) -> None:
        super().die()
        self.world.host.died(self.id, self.memory.own)

    def ask_claims(self) -> None:
        """As when its arena is full; its plug-in has let go of all arrays."""
        self.plugin.let_go()
        if self._running is not None:
            return
        self._say(self.session.ask_again(self.now))
        self.tick()

    def _say(self, messages: list[FromWorker] | list[Any]) -> None:
        for message in messages:
            self.world.send(self.id, BROKER, message)


class SupervisorNode(Node):
    """Keeps its workers alive, and beats the heart for them."""

    def __init__(
        self,
        world: World,
        id: bytes,
        *,
        stage: str,
        workers: int,
        speed: Speed,
        pipeline: str = "",
        version: str = "",
    ) -> None:
        super().__init__(world, id)
        self.stage = stage
        self.pipeline = pipeline
        self.version = version
        self.mark = f"{stage}:{version}".encode() if version else stage.encode()
        """What its workers write into what they pass on."""
        self.leaving = False
        self.speed = speed
        self.workers: dict[bytes, WorkerNode] = {}
        self._started = 0
        hello = SupervisorHello(PROTOCOL_VERSION, stage, pipeline, version)
        self.session = SupervisorSession(hello, self.now)
        self._say(self.session.start(self.now))
        for _ in range(workers):
            self._start()
        world.arm(self)

    def _start(self) -> None:
        if self.alive and not self.leaving:
            self._started += 1
            id = b"w%s.%d" % (self.id, self._started)
            self.workers[id] = WorkerNode(self.world, id, self)

    def lost(self, worker: WorkerNode, detail: str) -> None:
        """A worker has ended: say so, and start another."""
        if self.workers.pop(worker.id, None) is not None and self.alive:
            self.session.died(worker.id, detail, self.now, begun=worker.begun)
            self.world.after(RESTART_S, self._start)
            self.world.arm(self)
            self._leave_if_alone()

    def leave(self) -> None:
        """SIGTERM: its workers drain, and it goes last."""
        self.leaving = True
        for worker in list(self.workers.values()):
            worker.drain()
        self._leave_if_alone()

    def _leave_if_alone(self) -> None:
        if self.leaving and not self.workers and self.alive:
            self.world.send(self.id, BROKER, self.session.leave("drained"))
            self.die()

    def kill(self, worker: WorkerNode) -> None:
        """kill -9, by whomever."""
        self.lost(worker, "signal 9")
        worker.die()

    def die(self) -> None:
        super().die()
        for worker in list(self.workers.values()):
            worker.die()
        self.workers.clear()

    def receive(self, sender: bytes, message: Any) -> None:
        messages, order = self.session.receive(message, self.now)
        self._say(messages)
        if isinstance(order, KillOrder | Excused) and order.worker in self.workers:
            self.kill(self.workers[order.worker])

    def tick(self) -> None:
        reports = [
            WorkerReport(
                id,
                WorkerHealth.STOPPED if worker.stopped else WorkerHealth.ALIVE,
                warm=worker.session.life >= Life.READY,
            )
            for id, worker in self.workers.items()
        ]
        self._say(self.session.tick(reports, self.now))

    def due(self) -> float:
        return self.session.next_due()

    def _say(self, messages: list[FromSupervisor]) -> None:
        for message in messages:
            self.world.send(self.id, BROKER, message)
