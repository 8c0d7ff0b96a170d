"""The shared memory of a simulated host: slots that are poisoned when they are freed.

It keeps the law that all this is about: no slot is freed that somebody looks at, be it a process
that stands still. A process that dies looks at nothing any longer.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from random import Random

from broker.wire.frames import Buffer, blob
from broker.wire.messages import Blob, Payload, Ref, SlotKey

FOLDER = "folder"
TOKEN = "token"


class Lost(Exception):
    """A reference leads nowhere."""


class Slot:
    """What its owner knows of a slot: who holds it, and the number of its publication."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.is_ours = True
        self.is_broker = False
        self.published = 0


class Arena:
    """One process's slots."""

    def __init__(self, host: "Host", id: int) -> None:
        self.host = host
        self.id = id
        self.alive = True
        self.generation = 0
        self.slots: dict[int, Slot] = {}

    def allocate(self, content: bytes) -> Ref:
        """A new slot with this in it."""
        self.generation += 1
        self.slots[self.generation] = Slot(content)
        return Ref(self.id, self.generation * 64, self.generation, 0, len(content))

    def publish(self, generations: Iterable[int]) -> None:
        self.generation += 1
        for generation in generations:
            slot = self.slots[generation]
            slot.is_broker = True
            slot.published = self.generation

    def drop(self, generations: Iterable[int]) -> None:
        for generation in generations:
            self.slots[generation].is_ours = False
            self._release(generation)

    def free(self, generations: Iterable[int]) -> None:
        for generation in generations:
            if generation in self.slots:
                self.slots[generation].is_broker = False
                self._release(generation)

    def settle(self, generation: int, held: Collection[int]) -> None:
        for number, slot in list(self.slots.items()):
            if slot.is_broker and slot.published <= generation and number not in held:
                self.free([number])

    def _release(self, generation: int) -> None:
        slot = self.slots[generation]
        if not slot.is_ours and not slot.is_broker:
            readers = self.host.readers[self.id, generation]
            assert not readers, f"slot {generation} of {self.id} is freed under {readers}"
            self.host.freed += 1
            del self.slots[generation]


class Host:
    """All arenas, and who looks at what in them."""

    def __init__(self) -> None:
        self.arenas: dict[int, Arena] = {}  # those that have a file
        self.readers: dict[SlotKey, Counter[bytes]] = _Readers()
        self.freed = 0
        self.read = 0
        self._ids = 0

    def make(self) -> Arena:
        self._ids += 1
        arena = self.arenas[self._ids] = Arena(self, self._ids)
        return arena

    def look(self, ref: Ref) -> bytes:
        """What a reference leads to; raises Lost."""
        arena = self.arenas.get(ref.arena)
        slot = arena.slots.get(ref.generation) if arena is not None else None
        if slot is None:
            raise Lost
        self.read += 1
        return slot.content[ref.start : ref.start + ref.length]

    def died(self, node: bytes, arena: Arena | None) -> None:
        """A process ends, and with it what it looked at."""
        if arena is not None:
            arena.alive = False
        for readers in self.readers.values():
            del readers[node]

    def sweep(self, *, needed: set[int], doubtful: set[int]) -> tuple[list[int], list[int]]:
        """Which arenas are dead, and which alive; the files of dead ones go, if they may."""
        dead = sorted(doubtful - self.arenas.keys())
        alive = []
        for id, arena in list(self.arenas.items()):
            if arena.alive:
                alive.append(id)
                continue
            dead.append(id)
            if id not in needed:
                del self.arenas[id]
        return dead, alive

    def fetch(self, payload: Blob) -> Blob:
        """The payload with bytes in the place of references, where they can be read."""
        buffers: list[Buffer | Ref] = []
        for buffer, ref in zip(payload.buffers, payload.refs, strict=True):
            try:
                buffers.append(buffer if ref is None else self.look(ref))  # type: ignore[arg-type]
            except Lost:
                assert ref is not None
                buffers.append(ref)
        return blob(payload.body, buffers, payload.content_type)


class _Readers(dict[SlotKey, Counter[bytes]]):
    def __missing__(self, key: SlotKey) -> Counter[bytes]:
        readers = self[key] = Counter()
        return readers


class NodeMemory:
    """The memory of one process, as its session or table sees it, and as its plug-in uses it."""

    def __init__(self, host: Host, node: bytes) -> None:
        self.host = host
        self.own: Arena | None = None
        self._node = node
        self._told: set[SlotKey] = set()
        self._ended: deque[SlotKey] = deque()

    # -------------------------------------------------------------- what the protocol sees

    @property
    def arena(self) -> int:
        return self.own.id if self.own is not None else 0

    @property
    def generation(self) -> int:
        return self.own.generation if self.own is not None else 0

    def join(self, folder: str, token: str) -> bool:
        if self.own is not None or (folder, token) != (FOLDER, TOKEN):
            return False
        self.own = self.host.make()
        return True

    def publish(self, refs: Sequence[Ref]) -> None:
        if self.own is not None:
            self.own.publish(self._mine(refs))

    def drop(self, refs: Sequence[Ref]) -> None:
        if self.own is not None:
            self.own.drop(self._mine(refs))

    def free(self, generations: Sequence[int]) -> None:
        assert self.own is not None
        self.own.free(generations)

    def settle(self, generation: int, held: Collection[int]) -> None:
        assert self.own is not None
        self.own.settle(generation, held)

    def _mine(self, refs: Sequence[Ref]) -> list[int]:
        return [ref.generation for ref in refs if ref.arena == self.arena]

    def kept(self, slots: Collection[SlotKey]) -> list[SlotKey]:
        kept = [slot for slot in slots if self._looks_at(slot)]
        self._told.update(kept)
        return kept

    def gone(self) -> list[SlotKey]:
        gone = []
        while self._ended:
            slot = self._ended.popleft()
            if slot in self._told and not self._looks_at(slot):
                self._told.remove(slot)
                gone.append(slot)
        return gone

    def all_kept(self) -> list[SlotKey]:
        return sorted(self._told)

    def _looks_at(self, slot: SlotKey) -> bool:
        return self.host.readers[slot][self._node] > 0

    # -------------------------------------------------------------- what the plug-in does

    def view(self, ref: Ref) -> bytes:
        """Look at a slot, until `close`. Raises Lost."""
        content = self.host.look(ref)
        self.host.readers[ref.arena, ref.generation][self._node] += 1
        return content

    def close(self, ref: Ref) -> None:
        """Let go of one view."""
        slot = (ref.arena, ref.generation)
        self.host.readers[slot][self._node] -= 1
        if not self._looks_at(slot):
            del self.host.readers[slot][self._node]
            self._ended.append(slot)

    def fetch(self, ref: Ref) -> memoryview:
        """What a slot of our own holds."""
        assert self.own is not None
        return memoryview(self.own.slots[ref.generation].content)


class Plugin:
    """What a plug-in does with memory: passes on what it got, makes new results, keeps arrays."""

    def __init__(self, memory: NodeMemory, rng: Random) -> None:
        self._memory = memory
        self._rng = rng
        self._views: dict[int, list[Ref]] = {}  # by lease
        self._kept: list[Ref] = []

    def read(self, lease: int, payload: Payload) -> bytes:
        """The words of a payload, looked at until `end`. Raises Lost."""
        if isinstance(payload, bytes):
            return payload
        parts: list[bytes] = [payload.body]
        refs = payload.refs or [None] * len(payload.buffers)
        for buffer, ref in zip(payload.buffers, refs, strict=True):
            if ref is None:
                parts.append(bytes(buffer))  # type: ignore[call-overload]
            else:
                parts.append(self._memory.view(ref))
                self._views.setdefault(lease, []).append(ref)
        return b" ".join(parts)

    def write(self, payload: Payload, words: bytes, stage: bytes) -> Payload:
        """The result: the words and one more."""
        if isinstance(payload, bytes):
            return words + b" " + stage
        way = self._rng.random()
        if self._memory.own is not None and way < 0.4:
            return blob(b"", [self._memory.own.allocate(words + b" " + stage)])
        if payload.refs and way < 0.6:
            return blob(words, [stage])
        refs = payload.refs or [None] * len(payload.buffers)
        same = [b if ref is None else ref for b, ref in zip(payload.buffers, refs, strict=True)]
        return blob(payload.body, [*same, stage])  # type: ignore[list-item]

    def end(self, lease: int) -> None:
        """The batch is done; some of its arrays are kept, and some kept before are let go of."""
        views = self._views.pop(lease, [])
        keep = self._rng.random() < 0.4
        self._kept += views if keep else []
        for ref in [] if keep else views:
            self._memory.close(ref)
        while self._kept and self._rng.random() < 0.4:
            self._memory.close(self._kept.pop(self._rng.randrange(len(self._kept))))

    def let_go(self) -> None:
        """Of all that it kept."""
        while self._kept:
            self._memory.close(self._kept.pop())
