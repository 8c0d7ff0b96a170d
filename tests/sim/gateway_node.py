"""A gateway of a simulation: the real table of requests, and clients that keep the books."""

from typing import Any

from broker.wire.errors import ErrorCode
from broker.wire.frames import blob, encode_meta, refs_of
from broker.wire.messages import (
    Answer,
    Blob,
    Failure,
    Payload,
    Priority,
    RequestMeta,
    Streamed,
    SubmitItem,
    Value,
)
from broker.wire.window import Window
from gateway.pending import PendingTable, Settled
from tests.sim.memory import NodeMemory
from tests.sim.world import BROKER, Node, World

SHORTLY_S = 0.25
"""How long after its deadline a request may be answered at the latest."""
DRAIN_S = 3.5
"""What gateways have for their drain by default."""


class Request:
    """One request of one client, and what became of it."""

    def __init__(self, name: bytes, item: SubmitItem, due: float) -> None:
        self.name = name
        self.item = item
        self.due = due
        self.hung_up = False
        self.answer: Answer | Failure | None = None
        self.answered_at = 0.0
        self.values = 0
        self.window = Window()

    @property
    def code(self) -> ErrorCode | None:
        """Which error answered it; None for a result."""
        answer = self.answer
        assert answer is not None, f"{self.name!r} was never answered"
        outcome = answer.outcome if isinstance(answer, Answer) else answer
        return ErrorCode(outcome.code) if isinstance(outcome, Failure) else None

    def settle(self, answer: Answer | Failure, now: float) -> None:
        """It is answered: for the first time, in time, and with an answer of its own."""
        assert self.answer is None, f"{self.name!r} is answered twice"
        assert not self.hung_up, f"{self.name!r} is answered though nobody waits"
        assert self.values or now <= self.due + SHORTLY_S, f"{self.name!r} is answered late"
        self.answer = answer
        self.answered_at = now
        if self.code is None:
            assert isinstance(answer, Answer)
            outcome = answer.outcome
            if isinstance(outcome, Streamed):
                assert outcome.values == self.values, f"{self.name!r} is not whole"
                return
            assert not self.values, f"{self.name!r} is answered twice"
            assert isinstance(outcome, bytes | Blob)
            said = words(outcome)
            assert said[0] == self.name, f"{self.name!r} got the answer {outcome!r}"
            fillings = {word for word in said if word.startswith(b"of:")}
            assert fillings <= {b"of:" + self.name}, f"{self.name!r} got {fillings}"

    def take(self, value: Value) -> None:
        """A value of a stream comes: the next one, and its own."""
        assert self.answer is None, f"{self.name!r} has ended"
        assert not self.hung_up, f"{self.name!r} is answered though nobody waits"
        self.values += 1
        assert value.payload == b"%s %d" % (self.name, self.values), f"out of order: {value!r}"
        self.window.send(len(self.name))


def words(payload: Payload) -> list[bytes]:
    """What a payload says: the request's name, then each stage that ran it."""
    if isinstance(payload, bytes):
        return payload.split()
    parts = [payload.body, *(bytes(b) for b in payload.buffers if b is not None)]  # type: ignore[call-overload]
    return b" ".join(parts).split()


class GatewayNode(Node):
    """One life of a gateway."""

    def __init__(self, world: World, id: bytes) -> None:
        super().__init__(world, id)
        self.memory = NodeMemory(world.host, id)
        self.table: PendingTable[Request] = PendingTable(
            self.now, host="sim", pid=1, memory=self.memory, fetch=self.memory.fetch
        )
        self.requests: list[Request] = []
        self._flush()

    def submit(
        self,
        *,
        pipeline: str,
        timeout_s: float,
        text: bytes = b"",
        large: bool,
        client: int = 0,
        priority: int = Priority.NORMAL,
        version: str = "",
        key: int = 0,
    ) -> Request:
        """A client asks for something; `large` bodies travel as frames of their own, or lie in our
        arena, where there is one.
        """
        name = b"%s:%d" % (self.id, len(self.requests))
        filling = b"of:%s " % name * 3
        payload: Payload = name + b" " + text
        if large and self.memory.own is not None and self.world.rng.random() < 0.7:
            payload = blob(b"", [self.memory.own.allocate(b" ".join((name, text, filling)))])
        elif large:
            payload = blob(name, [text, b"", filling])
        meta = encode_meta(RequestMeta("id"))
        item = SubmitItem(0, pipeline, payload, meta, timeout_s, client, priority, version, key=key)
        request = Request(name, item, self.now + timeout_s)
        self.requests.append(request)
        failure = self.table.add(item, request, request.due, self.now)
        if failure is not None:
            self.memory.drop(refs_of(payload))
            request.settle(failure, self.now)
        self._flush()
        return request

    def die(self) -> None:
        super().die()
        self.world.host.died(self.id, self.memory.own)

    def drain(self) -> None:
        """SIGTERM: what is held is still answered, for so long."""
        self._settle(self.table.drain())
        self.world.after(DRAIN_S, self._leave)

    def _leave(self) -> None:
        if self.alive:
            self._settle(self.table.abandon())
            self.world.send(self.id, BROKER, self.table.farewell())
            self.die()

    def ask_claims(self) -> None:
        """As when its arena is full."""
        self.table.ask_claims()

    def hang_up(self, request: Request) -> None:
        """A client goes away before it has its answer."""
        if request.answer is None and not request.hung_up:
            request.hung_up = True
            self.table.cancel(request.item.seq)
            self._flush()

    def receive(self, sender: bytes, message: Any) -> None:
        settled = self.table.receive(message, self.now)
        for request, value in self.table.take_streamed():
            request.take(value)
            if request.window.is_half_full:
                self.table.credit(request.item.seq, request.window.take_all())
        self._settle(settled)

    def tick(self) -> None:
        self._settle(self.table.tick(self.now))

    def due(self) -> float:
        return self.table.next_due()

    def _settle(self, settled: list[Settled[Request]]) -> None:
        for owner, answer, _ in settled:
            owner.settle(answer, self.now)
        self._flush()

    def _flush(self) -> None:
        for message in self.table.outgoing(self.now):
            self.world.send(self.id, BROKER, message)
        self.world.arm(self)
