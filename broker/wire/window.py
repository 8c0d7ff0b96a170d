"""How far a stream may run ahead of its client: in values and in bytes. Pure.

All three processes count the same way. The worker makes no more values than fit, the broker counts
what is on its way in the bounds of the pipeline, and the gateway says what its client has taken:
half a window at a time, so that small values cost no message each.
"""

from collections import deque

WINDOW_VALUES = 64
WINDOW_BYTES = 1 << 18
"""The value that goes beyond this still goes out: one always may, however large it is."""


class Window:
    """The values of one stream that are on their way."""

    __slots__ = ("_sizes", "bytes", "taken")

    def __init__(self) -> None:
        self._sizes: deque[int] = deque()
        self.bytes = 0
        self.taken = 0  # values that have arrived so far

    @property
    def is_open(self) -> bool:
        """Whether the next value may go out."""
        return len(self._sizes) < WINDOW_VALUES and self.bytes < WINDOW_BYTES

    def send(self, size: int) -> None:
        """A value of so many bytes goes out."""
        self._sizes.append(size)
        self.bytes += size

    def take(self, taken: int) -> None:
        """So many have arrived, from the first one on. To hear it again changes nothing."""
        while self.taken < taken and self._sizes:
            self.bytes -= self._sizes.popleft()
            self.taken += 1

    @property
    def is_half_full(self) -> bool:
        """Whether what is counted here is worth saying."""
        return 2 * len(self._sizes) >= WINDOW_VALUES or 2 * self.bytes >= WINDOW_BYTES

    def take_all(self) -> int:
        """All have arrived; returns how many that are, from the first one on."""
        self.taken += len(self._sizes)
        self._sizes.clear()
        self.bytes = 0
        return self.taken
