"""Slots of our own arena that the plug-in writes into: what `empty` gave it, and arrays it made.

A lent slot is held by the plug-in, as long as an array in it is alive, and by the results that lie
in it until they are on their way. The end of an array may be told in any thread, in the middle of
anything: it is only noted then, and seen to by `take_back`.
"""

import sys
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from broker.payload.arena import ARENA_BYTES, Arena
from broker.wire.messages import Ref

if TYPE_CHECKING:
    from workers.arrays import ArrayMemory

RESULT_BYTES_PER_CALL = 32 << 10
"""To have its arrays made in the arena pays for a plug-in if, for each array that it makes, so many
bytes of results need no copy: a call into Python takes about as long as copying that much."""
TRY_FROM_BYTES = 256 << 10
"""It is tried after a batch of which so many bytes had to be copied,"""
TRY_AGAIN_BATCHES = 256
"""and after so many batches again where it did not pay."""


class Lending:
    """The lent slots of one arena at a time."""

    def __init__(self) -> None:
        self.copied_bytes = 0
        """Of arrays of this batch that had to be copied into the arena."""
        self.is_on = False
        """Whether arrays are made in the arena, between `begin` and `end`."""
        self._shared_bytes = 0  # of those that were there already
        self._arena: Arena | None = None
        self._lent: set[int] = set()  # held by the plug-in
        self._results: dict[int, int] = {}  # lent slots, and how many results lie in each
        self._roots: dict[int, Any] = {}  # weak references; they tell the end of what `empty` gave
        self._returned: deque[int] = deque()
        # By address: who is told of the end of an array there, its slot, and the slot's memory,
        # which must stay mapped. Never cleared: arrays may outlive the arena.
        self._arrays: dict[int, tuple[deque[int], int, memoryview]] = {}
        self._memory: ArrayMemory | None = None
        self._batches_off = 0  # how long it is not to be tried again

    def use(self, arena: Arena | None) -> None:
        """Lend slots of this one. What was lent of an earlier one is none of our business any more,
        though its memory stays valid.
        """
        self._arena = arena
        self._lent.clear()
        self._results.clear()
        self._roots.clear()
        self._returned = deque()

    # -------------------------------------------------------------- lending

    def empty(self, shape: Any, dtype: Any) -> Any:
        """An uninitialised array; in the arena where that is worth it and there is room."""
        import numpy as np  # noqa: PLC0415  scripts pay for it when used

        dtype = np.dtype(dtype)
        arena = self._arena
        size_bytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if arena is None or size_bytes < ARENA_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        self.take_back()
        slot = arena.allocate(size_bytes)
        if slot is None:
            return np.empty(shape, dtype)
        generation = slot.generation
        root: Any = np.ndarray(shape, dtype, slot.memory)
        returned = self._returned
        self._roots[generation] = weakref.ref(root, lambda _: returned.append(generation))
        self._lent.add(generation)
        return root

    def begin(self) -> None:
        """The plug-in is about to run, and `is_on`."""
        if self.is_on and self._memory is not None:
            self._memory.on()

    def end(self) -> None:
        """It has run."""
        if self.is_on and self._memory is not None:
            self._memory.off()

    def decide(self) -> None:
        """A batch is done: see whether arrays are to be made in the arena in the next one."""
        memory, copied_bytes, shared_bytes = self._memory, self.copied_bytes, self._shared_bytes
        self.copied_bytes = self._shared_bytes = 0
        if self.is_on and memory is not None:
            calls, memory.calls = memory.calls, 0
            if shared_bytes < calls * RESULT_BYTES_PER_CALL:
                self.is_on = False
                self._batches_off = TRY_AGAIN_BATCHES
        elif self._batches_off:
            self._batches_off -= 1
        elif copied_bytes >= TRY_FROM_BYTES and "numpy" in sys.modules:
            if memory is None:
                memory = self._memory = self._make_memory()
            self.is_on = memory is not None
            self._batches_off = 0 if self.is_on else 1 << 62
            if memory is not None:
                memory.calls = 0

    def _make_memory(self) -> "ArrayMemory | None":
        from workers.arrays import ArrayMemory  # noqa: PLC0415  it needs numpy

        return ArrayMemory.make(self._take, self._give_back, self._size_of, from_bytes=ARENA_BYTES)

    # -------------------------------------------------------------- what numpy asks for

    def _take(self, size_bytes: int) -> int:
        arena = self._arena
        if arena is None:
            return 0
        self.take_back()
        slot = arena.allocate(size_bytes)
        if slot is None:
            return 0
        address = arena.address(slot)
        self._lent.add(slot.generation)
        self._arrays[address] = (self._returned, slot.generation, slot.memory)
        return address

    def _give_back(self, address: int) -> bool:
        found = self._arrays.pop(address, None)
        if found is None:
            return False
        returned, generation, _ = found
        returned.append(generation)
        return True

    def _size_of(self, address: int) -> int:
        found = self._arrays.get(address)
        return 0 if found is None else found[2].nbytes

    # -------------------------------------------------------------- results

    @property
    def is_lent(self) -> bool:
        """Whether a result may lie in a lent slot."""
        return bool(self._results)

    @property
    def has_arrays(self) -> bool:
        """Whether memory that numpy takes for an array's own may be a slot's."""
        return bool(self._arrays)

    def find(self, address: int, size_bytes: int) -> Ref | None:
        """The lent slot in which these bytes lie, now held for a result too, until `drop`."""
        arena = self._arena
        ref = None if arena is None else arena.find(address, size_bytes)
        if ref is not None:
            self._results[ref.generation] = self._results.get(ref.generation, 0) + 1
            self._shared_bytes += size_bytes
        return ref

    def is_written(self, generation: int) -> bool:
        """Whether the plug-in may still write into the slot in which a result lies."""
        return generation in self._lent

    def keep(self, ref: Ref) -> None:
        """The plug-in keeps the slot to itself: the result was copied."""
        self._shared_bytes -= ref.length
        self.drop(ref.generation)

    def drop(self, generation: int) -> None:
        """A result no longer holds its slot, lent or not."""
        left = self._results.pop(generation, 1) - 1
        if left:
            self._results[generation] = left
            return
        if generation not in self._lent and self._arena is not None:
            self._arena.drop([generation])

    def take_back(self) -> None:
        """See to the slots that the plug-in has let go of."""
        while self._returned:
            generation = self._returned.popleft()
            self._lent.discard(generation)
            self._roots.pop(generation, None)
            if generation not in self._results and self._arena is not None:
                self._arena.drop([generation])
