"""One stage's queue, and the order in which items leave it (the fifth law of scheduling).

Priority first, with a floor for low; then fair shares of clients; then deadline; then arrival.
Items that a lost worker gave back go before all others. An item that dies in the queue is skipped
when its turn comes, and swept out before the dead outnumber the living.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf

from broker.core.item import Item
from broker.core.states import ItemState
from broker.wire.messages import Priority

LOW_EVERY = 20
"""Every so many slots one is offered to low priority first: its 5 %."""

MANY_CLIENTS = 64
"""With more clients than this their turns are estimated, not counted out."""

SWEEP_AT = 64
"""Dead entries are swept out when there are more of them than this, and than living ones."""

_QUEUED = ItemState.QUEUED


class ClientQueue:
    """One client's items, by deadline and then arrival. `live` counts those still wanted.

    Deadlines nearly always come in order, so a deque carries the load, and a heap only what would
    break its order.
    """

    __slots__ = ("client", "fifo", "heap", "live")

    def __init__(self, client: int) -> None:
        self.client = client
        self.fifo: deque[Item] = deque()
        self.heap: list[tuple[float, int, Item]] = []
        self.live = 0

    def pop(self) -> Item | None:
        """The next item, dead or alive; None when there is none."""
        fifo, heap = self.fifo, self.heap
        if heap and (not fifo or heap[0][:2] < (fifo[0].deadline, fifo[0].id)):
            return heappop(heap)[2]
        return fifo.popleft() if fifo else None

    def ahead_of(self, deadline: float) -> int:
        """How many living items go before one that came now with this deadline."""
        if not self.heap and (not self.fifo or self.fifo[-1].deadline <= deadline):
            return self.live
        return sum(item.state is _QUEUED and item.deadline <= deadline for item in self)

    def latest(self) -> Item:
        """The living item whose turn comes last; there must be one."""
        for item in reversed(self.fifo):
            if item.state is _QUEUED:
                return item
        return max(entry for entry in self.heap if entry[2].state is _QUEUED)[2]

    def __iter__(self) -> Iterator[Item]:
        yield from self.fifo
        for entry in self.heap:
            yield entry[2]


class _Shares:
    """The items of one priority: clients take turns, an item each, as long as they have any."""

    __slots__ = ("clients", "live", "turns")

    def __init__(self) -> None:
        self.clients: dict[int, ClientQueue] = {}
        self.turns: deque[ClientQueue] = deque()
        self.live = 0

    def join(self, client: int) -> ClientQueue:
        """A client that had nothing here takes its place at the end of the turn."""
        queue = self.clients[client] = ClientQueue(client)
        self.turns.append(queue)
        return queue

    def pop(self, soonest: float, late: list[Item]) -> Item | None:
        """The next living item; clients that have none left are forgotten. One that is due before
        `soonest` goes to `late`, and does not use up its client's turn.
        """
        turns = self.turns
        while turns:
            queue = turns[0]
            while (item := queue.pop()) is not None:
                if item.state is _QUEUED:
                    queue.live -= 1
                    self.live -= 1
                    item.waits_in = None
                    if item.deadline < soonest:
                        late.append(item)
                        continue
                    turns.rotate(-1)
                    return item
            turns.popleft()
            del self.clients[queue.client]
        return None

    def ahead_of(self, client: int, deadline: float) -> int:
        """How many go before one more item of this client: all of its own that are due sooner, and
        of each other client no more than one for each of these, and one.
        """
        own = self.clients.get(client)
        mine = 0 if own is None else own.ahead_of(deadline)
        others = len(self.clients) - (own is not None)
        if not others:
            return mine
        rest = self.live - (0 if own is None else own.live)
        if others > MANY_CLIENTS:
            return mine + min(rest, others * (mine + 1))
        turns = mine + 1
        return mine + sum(min(q.live, turns) for q in self.turns if q is not own)

    def greediest(self) -> ClientQueue:
        """The client that has most waiting; there must be one."""
        return max(self.turns, key=lambda queue: queue.live)

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
        shares.live += 1
        queue.live += 1
        item.waits_in = queue
        fifo = queue.fifo
        if not fifo or item.deadline >= fifo[-1].deadline:
            fifo.append(item)
        else:
            heappush(queue.heap, (item.deadline, item.id, item))

    def push_front(self, item: Item) -> None:
        """Put back an item that was already taken: it goes before all that wait."""
        self._returned.appendleft(item)
        self.live += 1

    def discard(self, item: Item) -> None:
        """An item of this queue has left the state QUEUED without having been taken."""
        self.live -= 1
        self._dead += 1
        self._uncount(item)
        if self._dead > SWEEP_AT and self._dead > self.live:
            self._sweep()

    def remove(self, item: Item) -> None:
        """Take out a living item that goes on elsewhere. O(n): only late results need it."""
        self.live -= 1
        item.waits_in = None
        self._sweep(without=item)

    def clear(self) -> list[Item]:
        """Take out all living items, in about their order, to be put elsewhere."""
        living = [item for item in self if item.state is _QUEUED]
        for item in living:
            item.waits_in = None
        self.live = self._dead = 0
        self._returned.clear()
        self._shares = [_Shares() for _ in Priority]
        return living

    def untake(self) -> None:
        """An item that was taken will leave by `discard` after all."""
        self.live += 1
        self._dead -= 1

    def take(self, most: int, soonest: float = -inf) -> tuple[list[Item], list[Item]]:
        """Take out up to `most` living items, in order; and beside them those that were met on the
        way and are due before `soonest`.
        """
        taken: list[Item] = []
        late: list[Item] = []
        returned = self._returned
        while returned and len(taken) < most:
            item = returned.popleft()
            if item.state is _QUEUED:
                (late if item.deadline < soonest else taken).append(item)
        plain = self._plain()
        if plain is not None:
            self._take_plain(plain, most, soonest, taken, late)
        else:
            while len(taken) < most and (following := self._next(soonest, late)) is not None:
                taken.append(following)
        if not taken and not late and most > 0 and self.live:
            raise RuntimeError(f"{self.live} items are counted as waiting, and there is none")
        self.live -= len(taken) + len(late)
        if not self.live and (plain is None or self._dead):
            self._reset()
        return taken, late

    def ahead_of(self, priority: int, client: int, deadline: float) -> int:
        """How many living items go before one that came now: an estimate, which others that come
        later with more right than this one make too small.
        """
        shares = self._shares
        same = shares[priority].ahead_of(client, deadline)
        higher = sum(each.live for each in shares[:priority])
        if higher and priority == Priority.LOW:
            higher = min(higher, (LOW_EVERY - 1) * (same + 1))
        return len(self._returned) + same + higher

    def greediest(self, priority: int, client: int) -> Item | None:
        """Who has to make room for a newcomer: the latest item of whoever waits with the most, of
        a lower priority, or of the same where that client has more than the newcomer would have.
        """
        for lower in range(len(self._shares) - 1, priority, -1):
            if self._shares[lower].live:
                return self._shares[lower].greediest().latest()
        shares = self._shares[priority]
        if not shares.live:
            return None
        most = shares.greediest()
        own = shares.clients.get(client)
        return most.latest() if most.live > (0 if own is None else own.live) + 1 else None

    def _uncount(self, item: Item) -> None:
        """It no longer waits among the items of its client."""
        queue = item.waits_in
        if queue is not None:
            queue.live -= 1
            self._shares[item.priority].live -= 1
            item.waits_in = None

    def _plain(self) -> _Shares | None:
        """Those who hold everything, in the common case of one client and priority."""
        plain = None
        for shares in self._shares:
            if shares.turns:
                if plain is not None or len(shares.turns) != 1 or shares.turns[0].heap:
                    return None
                plain = shares
        return plain

    def _take_plain(
        self,
        shares: _Shares,
        most: int,
        soonest: float,
        taken: list[Item],
        late: list[Item],
    ) -> None:
        """Take from the one deque that such shares have."""
        queue = shares.turns[0]
        fifo = queue.fifo
        before = len(taken) + len(late)
        while fifo and len(taken) < most:
            item = fifo.popleft()
            if item.state is _QUEUED:
                item.waits_in = None
                (late if item.deadline < soonest else taken).append(item)
        count = len(taken) + len(late) - before
        queue.live -= count
        shares.live -= count

    def _next(self, soonest: float, late: list[Item]) -> Item | None:
        high, normal, low = self._shares
        self._slots += 1
        order = (low, high, normal) if self._slots % LOW_EVERY == 0 else (high, normal, low)
        for shares in order:
            if shares.turns and (item := shares.pop(soonest, late)) is not None:
                return item
        return None

    def _reset(self) -> None:
        """Nobody living is left: drop the dead at once, and forget whose turn it was."""
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

    def counts(self) -> dict[tuple[int, int], int]:
        """How many living items wait with their turn to come, by (priority, client)."""
        return {
            (priority, queue.client): queue.live
            for priority, shares in enumerate(self._shares)
            for queue in shares.turns
            if queue.live
        }

    def __iter__(self) -> Iterator[Item]:
        """All entries, the dead included, those that were put back first."""
        yield from self._returned
        for shares in self._shares:
            yield from shares
