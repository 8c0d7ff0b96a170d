"""One stage's queue, and the order in which items leave it (the fifth law of scheduling).

Priority first, with a floor for low; then fair shares of clients; then deadline; then arrival.
Items that a lost worker gave back go before all others. An item that dies in the queue is skipped
when its turn comes, and swept out before the dead outnumber the living.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from broker.core.item import Item
from broker.core.states import ItemState
from broker.wire.messages import Priority

LOW_EVERY = 20
"""Every so many slots one is offered to low priority first: its 5 %."""

SWEEP_AT = 64
"""Dead entries are swept out when there are more of them than this, and than living ones."""

_QUEUED = ItemState.QUEUED


class _ClientQueue:
    """One client's items, by deadline and then arrival.

    Deadlines nearly always come in order, so a deque carries the load, and a heap only what would
    break its order.
    """

    __slots__ = ("client", "fifo", "heap")

    def __init__(self, client: int) -> None:
        self.client = client
        self.fifo: deque[Item] = deque()
        self.heap: list[tuple[float, int, Item]] = []

    def pop(self) -> Item | None:
        """The next item, dead or alive; None when there is none."""
        fifo, heap = self.fifo, self.heap
        if heap and (not fifo or heap[0][:2] < (fifo[0].deadline, fifo[0].id)):
            return heappop(heap)[2]
        return fifo.popleft() if fifo else None

    def __iter__(self) -> Iterator[Item]:
        yield from self.fifo
        for entry in self.heap:
            yield entry[2]


class _Shares:
    """The items of one priority: clients take turns, an item each, as long as they have any."""

    __slots__ = ("clients", "turns")

    def __init__(self) -> None:
        self.clients: dict[int, _ClientQueue] = {}
        self.turns: deque[_ClientQueue] = deque()

    def join(self, client: int) -> _ClientQueue:
        """A client that had nothing here takes its place at the end of the turn."""
        queue = self.clients[client] = _ClientQueue(client)
        self.turns.append(queue)
        return queue

    def pop(self) -> Item | None:
        """The next living item; clients that have none left are forgotten."""
        turns = self.turns
        while turns:
            queue = turns[0]
            while (item := queue.pop()) is not None:
                if item.state is _QUEUED:
                    turns.rotate(-1)
                    return item
            turns.popleft()
            del self.clients[queue.client]
        return None

    def __iter__(self) -> Iterator[Item]:
        for queue in self.turns:
            yield from queue


class StageQueue:
    """The waiting items of one lane of a stage. `live` counts those that are still wanted."""

    __slots__ = ("_dead", "_returned", "_shares", "_slots", "live")

    def __init__(self) -> None:
        self.live = 0
        self._dead = 0
        self._slots = 0
        self._returned: deque[Item] = deque()
        self._shares = [_Shares() for _ in Priority]

    def push(self, item: Item) -> None:
        """Add an item that has just come to this stage."""
        self.live += 1
        shares = self._shares[item.priority]
        queue = shares.clients.get(item.client)
        if queue is None:
            queue = shares.join(item.client)
        fifo = queue.fifo
        if not fifo or item.deadline >= fifo[-1].deadline:
            fifo.append(item)
        else:
            heappush(queue.heap, (item.deadline, item.id, item))

    def push_front(self, item: Item) -> None:
        """Put back an item that was already taken: it goes before all that wait."""
        self._returned.appendleft(item)
        self.live += 1

    def discard(self) -> None:
        """An item of this queue has left the state QUEUED without having been taken."""
        self.live -= 1
        self._dead += 1
        if self._dead > SWEEP_AT and self._dead > self.live:
            self._sweep()

    def remove(self, item: Item) -> None:
        """Take out a living item that goes on elsewhere. O(n): only late results need it."""
        self.live -= 1
        self._sweep(without=item)

    def untake(self) -> None:
        """An item that was taken will leave by `discard` after all."""
        self.live += 1
        self._dead -= 1

    def take(self, most: int) -> list[Item]:
        """Take out up to `most` living items, in order."""
        taken: list[Item] = []
        returned = self._returned
        while returned and len(taken) < most:
            item = returned.popleft()
            if item.state is _QUEUED:
                taken.append(item)
        fifo = self._plain()
        if fifo is not None:
            while fifo and len(taken) < most:
                item = fifo.popleft()
                if item.state is _QUEUED:
                    taken.append(item)
        else:
            while len(taken) < most and (following := self._next()) is not None:
                taken.append(following)
        if not taken and most > 0 and self.live:
            raise RuntimeError(f"{self.live} items are counted as waiting, and there is none")
        self.live -= len(taken)
        if not self.live:
            self._reset()
        return taken

    def _plain(self) -> deque[Item] | None:
        """The one deque that holds everything, in the common case of one client and priority."""
        used = [shares for shares in self._shares if shares.turns]
        if len(used) != 1 or len(used[0].turns) != 1 or used[0].turns[0].heap:
            return None
        return used[0].turns[0].fifo

    def _next(self) -> Item | None:
        high, normal, low = self._shares
        self._slots += 1
        order = (low, high, normal) if self._slots % LOW_EVERY == 0 else (high, normal, low)
        for shares in order:
            if shares.turns and (item := shares.pop()) is not None:
                return item
        return None

    def _reset(self) -> None:
        """Nobody living is left: drop the dead at once."""
        if self._dead or any(len(shares.turns) > 1 for shares in self._shares):
            self._returned.clear()
            self._shares = [_Shares() for _ in Priority]
            self._dead = 0

    def _sweep(self, *, without: Item | None = None) -> None:
        living = [item for item in self if item.state is _QUEUED and item is not without]
        returned = [
            item for item in self._returned if item.state is _QUEUED and item is not without
        ]
        self._returned = deque(returned)
        self._shares = [_Shares() for _ in Priority]
        live = self.live  # without the one that is being discarded, though its state says living
        for item in living[len(returned) :]:
            self.push(item)
        self.live = live
        self._dead = 0

    def __iter__(self) -> Iterator[Item]:
        """All entries, the dead included, those that were put back first."""
        yield from self._returned
        for shares in self._shares:
            yield from shares
