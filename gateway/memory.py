"""The gateway's own arena: shared memory in which large uploads lie for the first stage to read.

Owns the arena and the slots that requests hold in it. It knows nothing of requests, and decides
nothing of the protocol: the pending table says what was published, dropped and freed.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from broker.payload.arena import TRIM_EVERY_S, Arena
from broker.payload.folder import ArenaError, ArenaFolder, default_limit_bytes
from broker.wire import log
from broker.wire.frames import Buffer
from broker.wire.messages import Ref, SlotKey

SMALL_BYTES = 64 << 20
"""An arena with a limit below this is worth a warning: one request of the largest size fills it."""


class Stored(NamedTuple):
    """Bytes in a slot of ours: the memory to write them to, and how others refer to them."""

    memory: memoryview
    ref: Ref


class UploadMemory:
    """An `OwnMemory` (see `broker.wire.memory`) that bodies are put into. One thread's."""

    def __init__(self, limit_bytes: int | None) -> None:
        """`limit_bytes` is the most that the arena may grow to: 0 for none, None for a default."""
        self._limit_bytes = limit_bytes
        self._arena: Arena | None = None
        self._joined: tuple[str, str] | None = None
        self._folder: ArenaFolder | None = None
        self._held: dict[SlotKey, memoryview] = {}
        self._overflowed = False
        self._trim_s = 0.0
        self.overflows = 0
        """Uploads that went through the socket because the arena was full."""

    # -------------------------------------------------------------- what is known

    @property
    def arena(self) -> int:
        return self._arena.id if self._arena is not None else 0

    @property
    def generation(self) -> int:
        return self._arena.generation if self._arena is not None else 0

    @property
    def limit_bytes(self) -> int:
        """How large the arena may grow; 0 while there is none."""
        return self._arena.limit_bytes if self._arena is not None else 0

    @property
    def used_bytes(self) -> int:
        """What is held in the arena, by requests here or by the broker."""
        return self._arena.used_bytes if self._arena is not None else 0

    # -------------------------------------------------------------- bodies

    def allocate(self, size_bytes: int, lead_bytes: int = 0) -> Stored | None:
        """A slot of that size, held until `drop`; None where there is no arena, or it is full.

        What is returned begins so many bytes behind the slot's own beginning, which is aligned.
        """
        arena = self._arena
        if arena is None:
            return None
        slot = arena.allocate(size_bytes + lead_bytes)
        if slot is None:
            self._overflowed = True
            return None
        ref = arena.ref(slot, lead_bytes, size_bytes)
        self._held[ref.arena, ref.generation] = slot.memory
        return Stored(slot.memory[lead_bytes : lead_bytes + size_bytes], ref)

    def store(self, body: bytes | memoryview) -> Stored | None:
        """The body in a slot, as by `allocate`. None, which is counted, where it does not fit."""
        return self.gather([body], [0])

    def gather(self, parts: Sequence[Buffer], starts: Sequence[int]) -> Stored | None:
        """The same for parts, each where it is to begin in the slot, in order."""
        stored = self.allocate(starts[-1] + len(parts[-1]))
        if stored is None:
            self.overflows += self._arena is not None
            return None
        for part, start in zip(parts, starts, strict=True):
            stored.memory[start : start + len(part)] = part
        return stored

    def fetch(self, ref: Ref) -> memoryview:
        """The bytes that a slot of ours holds; valid until it is dropped. KeyError once it is."""
        return self._held[ref.arena, ref.generation][ref.start : ref.start + ref.length]

    def overflowed(self) -> bool:
        """Whether an upload has found the arena full since this was last asked."""
        overflowed, self._overflowed = self._overflowed, False
        return overflowed

    # -------------------------------------------------------------- what the broker holds

    def publish(self, refs: Sequence[Ref]) -> None:
        if self._arena is not None:
            self._arena.publish(self._own(refs))

    def drop(self, refs: Sequence[Ref]) -> None:
        for ref in refs:
            self._held.pop((ref.arena, ref.generation), None)
        if self._arena is not None:
            self._arena.drop(self._own(refs))

    def free(self, generations: Sequence[int]) -> None:
        if self._arena is not None:
            self._arena.free(generations)

    def settle(self, generation: int, held: Collection[int]) -> None:
        arena = self._arena
        if arena is not None and generation <= arena.generation:  # else said of one we had before
            arena.settle(generation, held)

    def _own(self, refs: Sequence[Ref]) -> list[int]:
        arena = self.arena
        return [ref.generation for ref in refs if ref.arena == arena]

    # -------------------------------------------------------------- life

    def join(self, folder: str, token: str) -> bool:
        if (folder, token) == self._joined:
            return False
        self._joined = (folder, token)
        before, newest = self.arena, self.generation
        self._end_arena()
        self._arena = self._make(folder, token)
        if self._arena is not None:
            self._arena.generation = newest  # a word about an earlier one is never about this
        return self.arena != before

    def _make(self, folder: str, token: str) -> Arena | None:
        if not folder or self._limit_bytes == 0:
            whose = "the broker has" if self._limit_bytes != 0 else "the options allow"
            log.info("no_arena", reason=f"{whose} no shared memory")
            return None
        try:
            shared = ArenaFolder.join(folder, token)
            if shared is None:
                log.info("no_arena", reason="the broker is on another host, or another user's")
                return None
            limit_bytes = self._limit_bytes or default_limit_bytes()
            if not limit_bytes:
                log.warning("no_arena", reason="this host has no shared memory")
                return None
            arena = Arena(shared, limit_bytes)
            self._folder = shared
        except (ArenaError, OSError) as error:
            log.warning("no_arena", reason=str(error))
            return None
        log.info("arena_ready", limit_mib=limit_bytes >> 20)
        if self._limit_bytes is None and limit_bytes < SMALL_BYTES:
            log.warning(
                "arena_small",
                limit_mib=limit_bytes >> 20,
                reason="this host's /dev/shm is small: larger uploads go through the sockets; "
                "give it more (docker run --shm-size=2g)",
            )
        return arena

    def tick(self, now: float) -> None:
        """A few times a second: give memory back that was not used for a while."""
        if now >= self._trim_s and self._arena is not None:
            self._trim_s = now + TRIM_EVERY_S
            self._arena.trim()

    def close(self) -> None:
        """The arena's file is gone after this, whatever the broker still holds in it."""
        self._joined = None
        self._end_arena()
        if self._folder is not None:
            self._folder.leave()

    def _end_arena(self) -> None:
        """Slots that requests hold stay readable here, by `fetch`."""
        arena, self._arena = self._arena, None
        if arena is not None:
            arena.close()
