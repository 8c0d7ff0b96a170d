"""Messages of a busy deployment, changed on their way to a real scheduler and a gateway's table.

Whatever comes, decoding gives a message or ProtocolError, the scheduler raises nothing and its
books agree after every event; and when all have left, it holds what it held when nobody had come.
"""

import gc
import sys
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from broker.core.events import Action, PeerLost, Received, Send, Swept, Unreadable
from broker.core.item import Item
from broker.wire.errors import ProtocolError
from broker.wire.frames import (
    Buffer,
    blob,
    decode_from_broker,
    decode_to_broker,
    encode,
    readable_seqs,
)
from broker.wire.messages import (
    Answers,
    Ask,
    Blob,
    Catalog,
    FromBroker,
    Payload,
    Submit,
    SubmitItem,
    ToBroker,
    Values,
    Welcome,
)
from gateway.pending import PendingTable
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding
from tests.unit.broker.core.driver import Driver
from tests.unit.broker.core.test_many_events import PIPELINES, Torture

ROUND_EVENTS = 3000
QUIET_S = 120.0
"""After this long without a word nothing may be remembered of anybody."""
GROWTH_BYTES = 256 << 10
"""What may come to stay: names of counters, of versions that workers have named."""


class Messages:
    """The target; one step is one thing that happens in the deployment."""

    name = "messages"

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._driver = _HostileDriver(Mutator(rng))
        self._torture = _Torture(self._driver, seed=rng.getrandbits(32))
        self._first_bytes = 0
        self._bytes = 0
        self._rounds = 0

    def step(self) -> int:
        """How many changed messages there were."""
        before = self._driver.hostile
        self._torture.step()
        if self._driver.events > ROUND_EVENTS:
            self._end_round()
        return self._driver.hostile - before

    def finish(self) -> dict[str, str]:
        """Let all leave, and tell what is left."""
        self._end_round()
        return {
            "scheduler": f"{self._first_bytes:,} bytes after a round, "
            f"{self._bytes:,} after {self._rounds}"
        }

    def close(self) -> None:
        """Nothing was started."""

    def _end_round(self) -> None:
        driver = self._driver
        driver.leave()
        self._rounds += 1
        self._bytes = footprint_bytes(driver.scheduler)
        self._first_bytes = self._first_bytes or self._bytes
        if self._bytes > self._first_bytes + GROWTH_BYTES:
            raise Finding(f"the scheduler grew from {self._first_bytes} to {self._bytes} bytes")
        self._torture = _Torture(driver, seed=self._rng.getrandbits(32))


class _Torture(Torture):
    """With payloads that come in frames, too."""

    def body(self) -> Payload | None:
        """Of a request."""
        return self.rng.choice((super().body(), blob(b"a", [b"bcd", b"", b"e" * 300])))


class _HostileDriver(Driver):
    """A driver whose peers' messages are changed on their way, or come again changed."""

    def __init__(self, mutator: Mutator) -> None:
        super().__init__(**PIPELINES)
        self.hostile = 0
        self._mutator = mutator
        self._rng = mutator.rng
        self._table = _Table(self._rng)
        self._doubted: set[tuple[bytes, int]] = set()
        """Requests of which something else came, too: it may be refused, and they be answered."""

    def receive(self, peer: bytes, message: ToBroker) -> None:
        """Sometimes a changed one comes before it, and sometimes in its place."""
        chance = self._rng.random()
        if chance < 0.5:
            self._receive_changed(peer, message)
        if chance > 0.1:
            super().receive(peer, message)

    def _receive_changed(self, peer: bytes, message: ToBroker) -> None:
        self.hostile += 1
        if self._rng.random() < 0.1:
            peer = self._rng.choice([*self.ledger.peers, self._rng.randbytes(2)])
        frames = _changed(self._mutator, message)
        try:
            try:
                changed = decode_to_broker(frames)
            except ProtocolError:
                seqs = readable_seqs(frames)
                self._doubted.update((peer, seq) for seq in seqs)
                self.event(Unreadable(peer, seqs))
                return
            _check_sizes(changed)
            if isinstance(changed, Submit):
                self._doubted.update((peer, item.seq) for item in changed.items)
            if not isinstance(changed, Ask):  # which the router answers by itself
                self.event(Received(peer, changed))
        except Exception as error:
            raise Finding(f"{type(message).__name__}: {_shown(frames)}") from error

    def items(self, gateway: bytes = b"g1") -> dict[int, Item]:
        """Of a gateway that may have been made to leave."""
        return super().items(gateway) if gateway in self.ledger.peers else {}

    def _deliver(self, peer: bytes, message: FromBroker) -> None:
        if isinstance(message, Values):
            for value in message.values:
                if (peer, value.seq) in self._doubted:
                    self.answers.pop((peer, value.seq), None)
        super()._deliver(peer, message)

    def _perform(self, action: Action) -> None:
        super()._perform(action)
        if isinstance(action, Send) and self._rng.random() < 0.2:
            self.hostile += 1
            frames = _changed(self._mutator, action.message)
            try:
                self._table.receive(frames)
            except Exception as error:
                raise Finding(f"{type(action.message).__name__}: {_shown(frames)}") from error

    def leave(self) -> None:
        """All peers are lost, and time passes."""
        for peer in list(self.ledger.peers):
            self.event(PeerLost(peer, "gone"))
        self.gateways.clear()
        self.supervised.clear()
        self.run(QUIET_S)
        self.event(Swept(sorted(self.ledger.slots.doubtful()), []))
        self.tick()
        ledger = self.ledger
        left = {
            "peers": len(ledger.peers),
            "items": sum(pipeline.items for pipeline in ledger.pipelines.values()),
            "bytes": sum(pipeline.bytes for pipeline in ledger.pipelines.values()),
            "leases": len(ledger.leases),
            "leases given up": len(ledger.given_up),
            "deadlines": len(ledger.wheel),
            "slots": len(ledger.slots.counts),
        }
        if any(left.values()):
            raise Finding(f"left when all have left: {left}")
        for book in (self.sent, self.batches, self.answers, self.holding):
            book.clear()
        self.owed.clear()
        self.notes.clear()
        self.misbehaved.clear()
        self.events = 0


class _Table:
    """A gateway's table that hears changed messages: each request of it has one answer."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._now = 0.0
        self._table: PendingTable[int] = PendingTable(0.0)
        self._requests = 0
        self._answered: Counter[int] = Counter()

    def receive(self, frames: list[Buffer]) -> None:
        """The message, if it is one. A new request comes in, too."""
        self._now += 0.01
        with suppress(ProtocolError):
            message = decode_from_broker(frames)
            _check_sizes(message)
            self._agree(message)
            for owner, _, _ in self._table.receive(message, self._now):
                self._settle(owner)
        item = SubmitItem(0, "one", b"1", b"", 0.0)
        self._requests += 1
        if self._table.add(item, self._requests, self._now + 1.0, self._now) is not None:
            self._settle(self._requests)
        for owner, _, _ in self._table.tick(self._now):
            self._settle(owner)
        for out in self._table.outgoing(self._now):
            encode(out)
        if len(self._table) > 200:
            raise AssertionError(f"{len(self._table)} requests wait, of 100 within a second")

    def _agree(self, message: FromBroker) -> None:
        """Mostly it is of the life that the table knows, or nothing would be heeded."""
        if self._table.epoch and not isinstance(message, Welcome) and self._rng.random() < 0.9:
            message.epoch = self._table.epoch
        if isinstance(message, Answers):
            for answer in message.answers:
                answer.seq = self._rng.randint(self._requests - 50, self._requests + 1)
        elif isinstance(message, Catalog):
            self._table.receive(Welcome(message.epoch, 1), self._now)

    def _settle(self, owner: int) -> None:
        self._answered[owner] += 1
        if self._answered[owner] > 1:
            raise AssertionError(f"request {owner} was answered twice")
        self._answered.pop(owner - 1000, None)


def _changed(mutator: Mutator, message: ToBroker | FromBroker) -> list[Buffer]:
    """Its frames with a thing changed: in the bytes, or in what the header says."""
    frames = [bytes(frame) for frame in encode(message)]
    if mutator.rng.random() < 0.3:
        return list(mutator.frames(frames))
    kind, *fields = msgspec.msgpack.decode(frames[0])
    changed = mutator.value(fields)
    header = [kind, *changed] if isinstance(changed, list) else changed
    with suppress(OverflowError, TypeError, UnicodeEncodeError):  # what msgpack has no form for
        frames[0] = msgspec.msgpack.encode(header)
    return list(frames)


def _check_sizes(message: Any) -> None:
    """AssertionError unless every payload is as large as it says, which bounds rely on."""
    held = getattr(message, "items", None) or getattr(message, "answers", None) or []
    payloads = [getattr(each, "payload", None) or getattr(each, "outcome", b"") for each in held]
    for payload in payloads + getattr(message, "outcomes", []):
        if isinstance(payload, Blob):
            refs = payload.refs or [None] * len(payload.buffers)
            sizes = [
                memoryview(buffer).nbytes if ref is None else ref.length  # type: ignore[arg-type]
                for buffer, ref in zip(payload.buffers, refs, strict=True)
            ]
            assert sizes == payload.sizes, f"{sizes} are not {payload.sizes}"


def _shown(frames: list[Buffer]) -> str:
    return " ".join(bytes(frame)[:400].hex() or "-" for frame in frames[:8])


def footprint_bytes(root: object) -> int:
    """The size of everything that can be reached from an object, but for classes and code."""
    seen: set[int] = set()
    todo: list[Any] = [root]
    size_bytes = 0
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing):
            continue
        seen.add(id(thing))
        size_bytes += sys.getsizeof(thing)
        if isinstance(thing, msgspec.Struct):  # of some the collector knows nothing
            todo += [getattr(thing, name) for name in thing.__struct_fields__]
        else:
            todo += gc.get_referents(thing)
    return size_bytes
