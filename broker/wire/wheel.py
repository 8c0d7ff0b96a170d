"""A hashed timing wheel: many deadlines, most of which are cancelled before they come.

Both ends of the contract keep the deadline of every request, so both use this. Adding and
discarding are O(1), and a discarded entry leaves nothing behind (a heap with lazy deletion would
hold ten seconds' worth of answered requests). The price is a resolution of one slot.

Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987, scheme 6.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

SLOT_S = 0.02
"""Resolution: an entry comes due at most one slot late, never early."""


class TimerWheel(Generic[K, V]):
    """Entries of (due, key, value) by time. The same `due` must be given to add and to discard."""

    __slots__ = ("_order", "_slots")

    def __init__(self) -> None:
        self._slots: dict[int, dict[K, V]] = {}
        self._order: list[int] = []  # a heap of the slot numbers that were ever opened

    def add(self, due: float, key: K, value: V) -> None:
        """Have `value` come out of `expired` once `due` has passed."""
        number = int(due / SLOT_S) + 1
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            heappush(self._order, number)
        slot[key] = value

    def discard(self, due: float, key: K) -> None:
        """Forget an entry; one that already came out, or never was, is no error."""
        slot = self._slots.get(int(due / SLOT_S) + 1)
        if slot is not None:
            slot.pop(key, None)

    def next_due(self) -> float | None:
        """When `expired` will next have something to give, or None while nothing is due ever."""
        order = self._order
        while order:
            number = order[0]
            if self._slots[number]:
                return number * SLOT_S
            # An emptied slot goes only from the head, so that its number stays in the heap once.
            heappop(order)
            del self._slots[number]
        return None

    def is_due(self, now: float) -> bool:
        """Whether `expired` may have something to give."""
        return bool(self._order) and self._order[0] * SLOT_S <= now

    def expired(self, now: float) -> Iterator[V]:
        """Take out, and yield, all that is due by `now`."""
        order = self._order
        while order and order[0] * SLOT_S <= now:
            number = heappop(order)
            yield from self._slots.pop(number).values()

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))
