"""A worker's shared memory: its own arena, and what its plug-in looks at in those of others.

Results go out through `place`, which copies each large buffer once, into the arena; or not at all,
where it lies in shared memory already: a plug-in that returns what it was given, or what it had
from `empty`, or an array that was made there (see `lending`). Payloads come in through `buffers`.
The rest is what the session asks for.

numpy, of which views are made, takes 15 MiB and some time to start: it is imported with the first
reference, where the plug-in has not done so.
"""

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.payload.arena import ARENA_BYTES, Arena, Slot
from broker.payload.errors import PayloadLost
from broker.payload.folder import ArenaError, ArenaFolder, default_limit_bytes
from broker.payload.unwritten import Unwritten
from broker.wire import log
from broker.wire.frames import Buffer
from broker.wire.messages import Blob, Outcome, Ref, SlotKey
from workers.lending import Lending

if TYPE_CHECKING:
    from broker.payload.mapping import Mappings

Placed: TypeAlias = Buffer | Ref


class SharedMemory:
    """One worker process's arena and mappings; before `join`, and with a limit of 0, none."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        """`limit_bytes` bounds the arena; None takes a share of what the host has."""
        self._limit_bytes = limit_bytes
        self._folder: ArenaFolder | None = None
        self._arena: Arena | None = None
        self._mappings: Mappings | None = None  # until the first reference comes
        self._refused = ("", "")  # folder and token that could not be joined: said once
        self._told: set[SlotKey] = set()  # what the broker counts as kept by this process
        self.lending = Lending()
        self._is_touched = False  # a result since the last `seal` was large enough for the arena
        self._found_full = 0

    # -------------------------------------------------------------- what the session asks for

    @property
    def arena(self) -> int:
        """See `OwnMemory`."""
        return self._arena.id if self._arena is not None else 0

    @property
    def generation(self) -> int:
        """See `OwnMemory`."""
        return self._arena.generation if self._arena is not None else 0

    @property
    def used_bytes(self) -> int:
        """Of its own arena, what is held."""
        return self._arena.used_bytes if self._arena is not None else 0

    @property
    def limit_bytes(self) -> int:
        """How large that may become; 0 while there is none."""
        return self._arena.limit_bytes if self._arena is not None else 0

    @property
    def overflows(self) -> int:
        """How often it had no room."""
        return self._arena.full if self._arena is not None else 0

    def join(self, folder: str, token: str) -> bool:
        """See `OwnMemory`."""
        if self._limit_bytes == 0 or not folder or (folder, token) == self._refused:
            return False
        if self._folder is not None and (self._folder.name, self._folder.token) == (folder, token):
            return False
        joined = ArenaFolder.join(folder, token)
        if joined is None:
            self._refused = (folder, token)
            log.info("no shared memory with the broker: large payloads go through the socket")
            return False
        limit_bytes = self._limit_bytes
        try:
            arena = Arena(joined, default_limit_bytes() if limit_bytes is None else limit_bytes)
        except ArenaError as error:
            self._refused = (folder, token)
            log.warning("no arena: large payloads go through the socket", reason=str(error))
            return False
        arena.generation = self.generation  # a word about an earlier one is then never about this
        self._leave()
        self._folder, self._arena, self._mappings = joined, arena, None
        self.lending.use(arena)
        return True

    def publish(self, refs: Sequence[Ref]) -> None:
        """See `OwnMemory`."""
        arena = self._arena
        if arena is None:
            return
        generations = [ref.generation for ref in refs if ref.arena == arena.id]
        if generations:
            arena.publish(generations)

    def drop(self, refs: Sequence[Ref]) -> None:
        """See `OwnMemory`."""
        arena = self._arena
        if arena is None:
            return
        for ref in refs:
            if ref.arena == arena.id:
                self.lending.drop(ref.generation)

    def free(self, generations: Sequence[int]) -> None:
        """See `OwnMemory`."""
        if self._arena is not None:
            self._arena.free(generations)

    def settle(self, generation: int, held: Collection[int]) -> None:
        """See `OwnMemory`."""
        if self._arena is not None:
            self._arena.settle(generation, held)

    def kept(self, slots: Collection[SlotKey]) -> list[SlotKey]:
        """See `WorkerMemory`."""
        mappings = self._mappings
        if mappings is None:
            return []
        kept = [slot for slot in slots if mappings.living(slot)]
        self._told.update(kept)
        return kept

    def gone(self) -> list[SlotKey]:
        """See `WorkerMemory`."""
        mappings = self._mappings
        if mappings is None or not mappings.ended:
            return []
        gone = []
        while mappings.ended:
            slot = mappings.ended.popleft()
            if slot in self._told and not mappings.living(slot):
                self._told.remove(slot)
                gone.append(slot)
        return gone

    def all_kept(self) -> list[SlotKey]:
        """See `WorkerMemory`."""
        return sorted(self._told)

    # -------------------------------------------------------------- payloads

    def buffers(self, payload: Blob) -> list[Buffer]:
        """A payload's buffers, those in shared memory as read-only views. Raises PayloadLost."""
        if not payload.refs:
            return payload.buffers  # type: ignore[return-value]  # typed as object in the struct
        mappings = self._mappings or self._begin_to_map()
        return [
            buffer if ref is None else mappings.view(ref)  # type: ignore[misc]
            for buffer, ref in zip(payload.buffers, payload.refs, strict=True)
        ]

    def _begin_to_map(self) -> "Mappings":
        if self._folder is None:
            raise PayloadLost("it lies in shared memory, and this worker shares none")
        from broker.payload.mapping import Mappings  # noqa: PLC0415  see the module

        self._mappings = Mappings(self._folder)
        return self._mappings

    def place(self, buffers: Sequence[Buffer | Unwritten]) -> list[Placed]:
        """Where a result's buffers are to be read: the large ones in shared memory, if they can be.

        What is placed is held until `drop`.
        """
        placed: list[Placed] = []
        try:
            placed.extend(map(self._place, buffers))
        except BaseException:
            self.drop([each for each in placed if type(each) is Ref])
            raise
        return placed

    def _place(self, buffer: Buffer | Unwritten) -> Placed:
        arena = self._arena
        if isinstance(buffer, bytes | bytearray | memoryview):
            size_bytes = memoryview(buffer).nbytes
            if arena is None or size_bytes < ARENA_BYTES:
                return buffer
            self._is_touched = True
            if isinstance(buffer, memoryview) and (found := self._find(buffer)) is not None:
                return found
            slot = self._allocate(arena, size_bytes)
            if slot is None:
                return buffer
            slot.memory[:] = buffer
            self.lending.copied_bytes += size_bytes
            return arena.ref(slot)
        slot = None
        if arena is not None and buffer.nbytes >= ARENA_BYTES:
            self._is_touched = True
            slot = self._allocate(arena, buffer.nbytes)
        if arena is None or slot is None:
            return buffer.tobytes()
        try:
            buffer.write_to(slot.memory)
        except BaseException:
            arena.drop([slot.generation])
            raise
        return arena.ref(slot)

    def _allocate(self, arena: Arena, size_bytes: int) -> Slot | None:
        self.lending.take_back()
        return arena.allocate(size_bytes)

    def _find(self, buffer: memoryview) -> Ref | None:
        """The slot in which these bytes lie already."""
        np = sys.modules.get("numpy")
        if np is None:  # then there is neither a view of shared memory nor an array
            return None
        owner: Any = buffer.obj  # the view of bytes that `pack` made of an array
        base: Any = getattr(owner, "base", None)
        if type(base) is np.ndarray and base.flags.owndata and not self.lending.has_arrays:
            return None  # the array's own memory, from where numpy has it by itself
        if type(base) is not np.ndarray or owner.nbytes != buffer.nbytes:
            owner = np.frombuffer(buffer, np.uint8)
        address = owner.__array_interface__["data"][0]
        found = self.lending.find(address, buffer.nbytes)
        if found is None and self._mappings is not None:
            found = self._mappings.find(address, buffer.nbytes)
        return found

    @property
    def needs_seal(self) -> bool:
        """Whether `seal` has something to do: not after a batch of small results, unless arrays
        are made in the arena, which these may show not to pay any longer.
        """
        return self._is_touched or self.lending.is_on

    def seal(self, outcomes: Sequence[Outcome]) -> None:
        """A batch is done, and its results are about to go: what the plug-in can still write into,
        since it has kept an array there, is copied. Nothing to do unless it `needs_seal`.
        """
        self._is_touched = False
        arena, lending = self._arena, self.lending
        if arena is None:
            return
        if lending.is_lent:
            lending.take_back()
            for outcome in outcomes:
                if type(outcome) is Blob and outcome.refs:
                    self._seal(arena, outcome)
        lending.decide()

    def _seal(self, arena: Arena, payload: Blob) -> None:
        for place, ref in enumerate(payload.refs):
            if ref is None or ref.arena != arena.id or not self.lending.is_written(ref.generation):
                continue
            slot = arena.allocate(ref.length)
            if slot is not None:
                slot.memory[:] = arena.read(ref)
                payload.refs[place] = arena.ref(slot)
            else:
                payload.buffers[place] = bytes(arena.read(ref))
                payload.refs[place] = None
            self.lending.keep(ref)

    # -------------------------------------------------------------- time and the end

    def found_full(self) -> bool:
        """Whether the arena had no room for something since this was last asked."""
        arena = self._arena
        if arena is None or arena.full == self._found_full:
            return False
        self._found_full = arena.full
        return True

    def tick(self) -> None:
        """Every `TRIM_EVERY_S`: memory that was not used goes back to the system."""
        if self._arena is not None:
            self.lending.take_back()
            self._arena.trim()

    def close(self) -> None:
        """The process ends. An arena in which somebody may still read is left to the broker, which
        removes it when nothing there is held any longer.
        """
        folder = self._folder
        self._leave()
        if folder is not None:
            folder.leave()

    def _leave(self) -> None:
        arena, folder = self._arena, self._folder
        if arena is None or folder is None:
            return
        self.lending.take_back()
        arena.close(remove=not arena.used_bytes or not folder.has_broker())
        self._arena = self._folder = None
        self.lending.use(None)
