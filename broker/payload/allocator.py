"""Which ranges of an arena are taken: offsets and sizes alone, no memory.

First fit by address: what is taken gathers at low offsets, so that few pages are ever touched, and
those again and again. Neighbours that are free are always one range, so there is at most one more
of these than of taken ones.
"""

from bisect import bisect_left, bisect_right, insort

ALIGNMENT_BYTES = 64
"""Of every offset and size: a cache line, and what vector instructions want."""


def rounded_up(size_bytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


class Allocator:
    """The ranges of `size_bytes`, taken or free."""

    def __init__(self, size_bytes: int) -> None:
        size_bytes -= size_bytes % ALIGNMENT_BYTES
        # Free ranges, in order: where each begins and ends.
        self._starts = [0] if size_bytes else []
        self._ends = [size_bytes] if size_bytes else []
        self._sizes: dict[int, int] = {}  # of the taken ranges, by offset
        self._taken: list[int] = []  # their offsets, in order
        self.used_bytes = 0

    def allocate(self, size_bytes: int) -> int | None:
        """The offset of a range of at least this size (1 or more), now taken; None: no room."""
        size = rounded_up(size_bytes)
        for index, start in enumerate(self._starts):
            if self._ends[index] - start >= size:
                break
        else:
            return None
        if self._ends[index] - start == size:
            del self._starts[index], self._ends[index]
        else:
            self._starts[index] = start + size
        self._sizes[start] = size
        insort(self._taken, start)
        self.used_bytes += size
        return start

    def release(self, offset: int) -> None:
        """The range at `offset` is free again. Raises KeyError if none is taken there."""
        size = self._sizes.pop(offset)
        del self._taken[bisect_left(self._taken, offset)]
        self.used_bytes -= size
        end = offset + size
        starts, ends = self._starts, self._ends
        index = bisect_left(starts, offset)  # of the free range behind it
        meets_next = index < len(starts) and starts[index] == end
        if index and ends[index - 1] == offset:
            ends[index - 1] = ends[index] if meets_next else end
            if meets_next:
                del starts[index], ends[index]
        elif meets_next:
            starts[index] = offset
        else:
            starts.insert(index, offset)
            ends.insert(index, end)

    def around(self, offset: int) -> int | None:
        """Where the taken range begins in which `offset` lies."""
        index = bisect_right(self._taken, offset) - 1
        if index < 0:
            return None
        start = self._taken[index]
        return start if offset < start + self._sizes[start] else None

    @property
    def top(self) -> int:
        """Where the last taken range ends."""
        if not self._taken:
            return 0
        return self._taken[-1] + self._sizes[self._taken[-1]]
