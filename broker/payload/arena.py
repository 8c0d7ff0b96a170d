"""An arena: the shared-memory file in which this process puts large payloads for others to read.

It is cut into slots: a header of 64 bytes (generation and length, both u64), then the data. A slot
is held by whoever here asked for it, from `allocate` to `drop`, and by the broker, from `publish`
to `free`; its memory is used again when neither holds it. Who reads it, and for how long, only the
broker knows.

For one thread at a time; no method is to be called by a finalizer, which may run within another.
"""

import ctypes
import fcntl
import mmap
import os
import struct
import weakref
from collections.abc import Collection, Iterable
from contextlib import suppress

from broker.payload.allocator import Allocator
from broker.payload.folder import ArenaError, ArenaFolder
from broker.wire.messages import Ref

ARENA_BYTES = 64 * 1024
"""The smallest buffer that is worth a slot; smaller ones are cheaper as frames."""

HEADER = struct.Struct("<QQ")
"""At the beginning of a slot: its generation, 0 once it is no slot any more, and its length."""
HEADER_BYTES = 64

_STEP_BYTES = 1 << 20  # pages are reserved and given back in steps of this size
_KEPT_BYTES = 4 << 20  # so much is not given back, for a payload that comes now and then

TRIM_EVERY_S = 1.0
"""How often owners should `trim`."""
_NO_GENERATION = bytes(8)


class Slot:
    """A slot that the caller of `allocate` holds. `memory`: its data, writable, as many bytes as
    were asked for, aligned to 64.
    """

    __slots__ = ("generation", "memory", "offset")

    def __init__(self, generation: int, offset: int, memory: memoryview) -> None:
        self.generation = generation
        self.offset = offset
        self.memory = memory


class _Held:
    """What the arena knows of a slot; `published` is 0, or when it was: see `Arena.publish`."""

    __slots__ = ("is_broker", "is_ours", "offset", "published", "size_bytes")

    def __init__(self, offset: int, size_bytes: int) -> None:
        self.offset = offset
        self.size_bytes = size_bytes
        self.is_ours = True
        self.is_broker = False
        self.published = 0


class Arena:
    """`id` is what others call it, `generation` the newest number given out, `full` counts how
    often there was no room.
    """

    def __init__(self, folder: ArenaFolder, limit_bytes: int) -> None:
        """Make the file, which takes memory only as slots do. Raises ArenaError."""
        self.limit_bytes = limit_bytes - limit_bytes % mmap.PAGESIZE
        if self.limit_bytes < ARENA_BYTES + HEADER_BYTES:
            raise ArenaError(f"an arena of {limit_bytes} bytes could hold no payload")
        self.generation = 0
        self.full = 0
        try:
            self.id, self._lock, self._file = _create(folder, self.limit_bytes)
            self._map = mmap.mmap(self._file, self.limit_bytes)
        except OSError as error:
            raise ArenaError(f"no arena in {folder.path}: {error.strerror}") from None
        self._path = folder.arena_path(self.id)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._memory = memoryview(self._map)
        self._allocator = Allocator(self.limit_bytes)
        self._reserved = 0  # up to here the file has pages
        self._peak = _KEPT_BYTES  # up to here there were slots since the last `trim`
        self._slots: dict[int, _Held] = {}  # by generation
        self._generations: dict[int, int] = {}  # by offset
        me = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _leave_to_parent(me()))

    @property
    def used_bytes(self) -> int:
        """The memory of all slots, with their headers."""
        return self._allocator.used_bytes

    def allocate(self, size_bytes: int) -> Slot | None:
        """A new slot of this size (1 or more), held by the caller until `drop`.

        None: the arena is full, or the host's shared memory is.
        """
        offset = self._allocator.allocate(HEADER_BYTES + size_bytes)
        if offset is None:
            self.full += 1
            return None
        start = offset + HEADER_BYTES
        self._peak = max(self._peak, start + size_bytes)
        if not self._reserve(start + size_bytes):
            self._allocator.release(offset)
            self.full += 1
            return None
        self.generation += 1
        generation = self.generation
        HEADER.pack_into(self._map, offset, generation, size_bytes)
        self._slots[generation] = _Held(offset, size_bytes)
        self._generations[offset] = generation
        return Slot(generation, offset, self._memory[start : start + size_bytes])

    def ref(self, slot: Slot, start: int = 0, length: int | None = None) -> Ref:
        """What others need to find bytes of a slot; without `length` all from `start` on."""
        if length is None:
            length = slot.memory.nbytes - start
        return Ref(self.id, slot.offset, slot.generation, start, length)

    def address(self, slot: Slot) -> int:
        """Where the data of a slot lies in this process."""
        return self._base + slot.offset + HEADER_BYTES

    def read(self, ref: Ref) -> memoryview:
        """The bytes of a reference to a slot of this arena that is held."""
        start = ref.slot + HEADER_BYTES + ref.start
        return self._memory[start : start + ref.length]

    def publish(self, generations: Iterable[int]) -> None:
        """A message that refers to these slots goes to the broker, which holds them from now on.

        Of a slot that it was sent before, see to it first that it no longer holds that one, or is
        another broker: else its word that it is free might come late and be about the first time.
        """
        # Numbers of slots also count the messages, so that Claims tell which they know of.
        self.generation += 1
        for generation in generations:
            held = self._slots.get(generation)
            if held is not None:
                held.is_broker = True
                held.published = self.generation

    def drop(self, generations: Iterable[int]) -> None:
        """Whoever allocated these slots holds them no longer."""
        for generation in generations:
            held = self._slots.get(generation)
            if held is not None:
                held.is_ours = False
                self._release(generation, held)

    def free(self, generations: Iterable[int]) -> None:
        """The broker holds these slots no longer. Of those that it does not hold, nothing."""
        for generation in generations:
            held = self._slots.get(generation)
            if held is not None:
                held.is_broker = False
                self._release(generation, held)

    def settle(self, generation: int, held: Collection[int]) -> None:
        """The broker has told what it holds, of all that went out before this `generation`."""
        kept = frozenset(held)
        self.free(
            [
                number
                for number, slot in self._slots.items()
                if slot.is_broker and slot.published <= generation and number not in kept
            ]
        )

    def find(self, address: int, size_bytes: int) -> Ref | None:
        """Where these bytes of this process lie in a slot of this arena, if they do.

        None for a slot that has been published: the broker might be about to free it.
        """
        position = address - self._base
        if not 0 <= position < self.limit_bytes:
            return None
        offset = self._allocator.around(position)
        if offset is None:
            return None
        generation = self._generations[offset]
        held = self._slots[generation]
        start = position - offset - HEADER_BYTES
        if held.published or start < 0 or start + size_bytes > held.size_bytes:
            return None
        return Ref(self.id, offset, generation, start, size_bytes)

    def trim(self) -> None:
        """Give the pages back to the system that have held no slot since the last `trim`."""
        top = -(-self._peak // _STEP_BYTES) * _STEP_BYTES
        self._peak = max(self._allocator.top, _KEPT_BYTES)
        if self._reserved <= top:
            return
        with suppress(OSError):  # not every file system can
            self._map.madvise(mmap.MADV_REMOVE, top, self._reserved - top)
            self._reserved = top

    def close(self, *, remove: bool = True) -> None:
        """Give out no slot any more. What is looked at stays valid, here and elsewhere.

        With `remove` the file goes, and whoever has not mapped it finds nothing; without, it is
        one whose owner is dead, which the broker removes when nobody needs it.
        """
        if self._lock < 0:
            return
        if remove:
            with suppress(OSError):
                os.unlink(self._path)
        self._let_go()
        with suppress(BufferError):  # arrays in it live on; the map ends with the last of them
            self._memory.release()
            self._map.close()

    def _reserve(self, end: int) -> bool:
        """Have pages up to `end`. To touch a page that the system cannot give would be a SIGBUS."""
        if end <= self._reserved:
            return True
        ample = -(-end // _STEP_BYTES) * _STEP_BYTES
        for upto in (min(ample, self.limit_bytes), -(-end // mmap.PAGESIZE) * mmap.PAGESIZE):
            try:
                os.posix_fallocate(self._file, self._reserved, upto - self._reserved)
            except OSError:  # a step less, before it is called full
                continue
            self._reserved = upto
            return True
        return False

    def _release(self, generation: int, held: _Held) -> None:
        if held.is_ours or held.is_broker:
            return
        self._map[held.offset : held.offset + 8] = _NO_GENERATION
        del self._slots[generation], self._generations[held.offset]
        self._allocator.release(held.offset)

    def _let_go(self) -> None:
        """Own nothing any more: neither the file nor the lock nor any slot."""
        os.close(self._lock)
        os.close(self._file)
        self._lock = self._file = -1
        self._reserved = 0
        self._allocator = Allocator(0)
        self._slots.clear()
        self._generations.clear()


def _create(folder: ArenaFolder, size_bytes: int) -> tuple[int, int, int]:
    """Make the file of a new arena. Returns its id, the locked file, and the file to map.

    They are two, since a map keeps the file open that it was made of, and would keep it locked in
    processes that were forked. Raises OSError.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(8):
        id = (int.from_bytes(os.urandom(8)) >> 1) | 1
        path = folder.unborn_path(id)
        lock = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, size_bytes)
            file = os.open(path, flags)
            try:
                os.rename(path, folder.arena_path(id))
            except BaseException:
                os.close(file)
                raise
            return id, lock, file
        except (BlockingIOError, FileNotFoundError):
            os.close(lock)  # the broker took it for one that a dead owner has left
        except BaseException:
            os.close(lock)
            with suppress(OSError):
                os.unlink(path)
            raise
    raise FileNotFoundError(2, "new files vanish at once")


def _leave_to_parent(arena: Arena | None) -> None:
    """In a forked process: the file is the parent's, and so is the lock that says it lives."""
    if arena is not None and arena._lock >= 0:
        arena._let_go()
