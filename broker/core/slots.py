"""Which slots of shared memory are held, and what their owners are to be told.

A slot is held by every item whose payload refers to it, every lease that lets a worker look at it,
every worker that has kept a view of it, and every answer on its way out. All of them say so here;
who they are is not known here, nor what lies in a slot. When nobody holds a slot any longer, its
owner is told with what it is sent next (a batch, answers), or soon: memory that is used again a
little later costs less than a message and a process that wakes up for it.

A lost worker may be only stopped, or mute, and still look at what it had: that stays held, in limbo
under the name of the worker's arena, until it says HELLO again or its arena's lock tells that it is
dead.

A young broker does not know what was looked at before it began: processes that have not said HELLO
to it may. Until it is *settled* it tells nobody that a slot of before is free.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from broker.wire.frames import refs_of
from broker.wire.messages import Blob, Claims, Failure, Free, Payload, SlotKey

FREE_AT_ONCE = 16
"""So many free slots are told at the end of the turn; fewer wait for the next housekeeping."""

SETTLE_S = 5.0
"""A broker is young for this long at least: so long may peers need to find it again."""


def slots_of(payload: Payload | Failure) -> tuple[SlotKey, ...]:
    """The slots that a payload refers to, each once."""
    if type(payload) is not Blob or not payload.refs:
        return ()
    if len(payload.refs) == 1 and (ref := payload.refs[0]) is not None:
        return ((ref.arena, ref.generation),)
    return tuple(dict.fromkeys((ref.arena, ref.generation) for ref in refs_of(payload)))


class Slots:
    """The held slots of all arenas, and the owners that are connected."""

    __slots__ = (
        "_asked",
        "_bases",
        "_began",
        "_epoch",
        "_free",
        "_owners",
        "_withheld",
        "counts",
        "limbo",
        "settled",
        "unsaid",
    )

    def __init__(self, *, epoch: int, now: float) -> None:
        self.counts: dict[SlotKey, int] = {}  # how many hold each; never 0
        self.limbo: dict[int, list[SlotKey]] = {}  # by the arena of the lost worker
        self.settled = False
        self._epoch = epoch
        self._began = now
        self._owners: dict[int, bytes] = {}  # arena: the connected peer that owns it
        self._bases: dict[int, int] = {}  # arenas met, and their newest slot then; while young
        self._asked: dict[int, int] = {}  # arenas that wait for Claims: up to which slot
        self._free: dict[int, dict[int, None]] = {}  # by arena; to be told
        self.unsaid = 0  # how many these are
        self._withheld: dict[SlotKey, None] = {}  # to be told once settled

    # -------------------------------------------------------------- holding

    def hold(self, keys: Iterable[SlotKey]) -> None:
        """One more holds each of these."""
        counts = self.counts
        for key in keys:
            count = counts.get(key)
            if count is None:
                counts[key] = 1
                if self.unsaid:
                    self._take_back(key)
                self._withheld.pop(key, None)
            else:
                counts[key] = count + 1

    def release(self, keys: Iterable[SlotKey]) -> None:
        """One of those that held each of these does so no longer."""
        counts = self.counts
        for key in keys:
            count = counts[key]
            if count > 1:
                counts[key] = count - 1
            else:
                del counts[key]
                self._set_free(key)

    def pass_over(self, keys: Iterable[SlotKey]) -> None:
        """A message referred to these, and nothing came of it: those that nobody holds are free."""
        for key in keys:
            if key not in self.counts:
                self._set_free(key)

    def _set_free(self, key: SlotKey) -> None:
        arena, generation = key
        if not self.settled and generation <= self._bases.get(arena, generation):
            self._withheld[key] = None
            return
        free = self._free.setdefault(arena, {})
        if generation not in free:
            free[generation] = None
            self.unsaid += 1

    def _take_back(self, key: SlotKey) -> None:
        free = self._free.get(key[0])
        if free is not None and key[1] in free:
            del free[key[1]]
            self.unsaid -= 1

    # -------------------------------------------------------------- workers in limbo

    def into_limbo(self, arena: int, keys: Collection[SlotKey]) -> None:
        """A lost worker held these: whether it still looks at them is not known."""
        if keys:
            self.limbo.setdefault(arena, []).extend(keys)

    def out_of_limbo(self, arena: int) -> None:
        """That worker is dead, or has said what it looks at."""
        self.release(self.limbo.pop(arena, ()))

    # -------------------------------------------------------------- owners

    def join(self, arena: int, peer: bytes, generation: int) -> None:
        """The owner of an arena said HELLO; its newest slot is `generation`. It is owed Claims."""
        self._owners[arena] = peer
        self._asked[arena] = generation
        if not self.settled:
            self._bases.setdefault(arena, generation)

    def leave(self, arena: int) -> None:
        """Its owner is no longer connected; what lies in it may be held all the same."""
        self._owners.pop(arena, None)
        self._asked.pop(arena, None)

    def sweep(self, dead: Iterable[int], alive: Iterable[int], now: float) -> None:
        """The arenas were looked through: the owners of these are dead, and of those alive."""
        for arena in dead:
            self.out_of_limbo(arena)
        if not self.settled and now - self._began >= SETTLE_S:
            self.settled = all(arena in self._bases for arena in alive)
            if self.settled:
                withheld, self._withheld = self._withheld, {}
                self._bases.clear()
                self.pass_over(withheld)

    def take_free(self, arena: int) -> list[int]:
        """The free slots of an arena whose owner is just being told something else."""
        free = list(self._free.pop(arena, ()))
        self.unsaid -= len(free)
        return free

    @property
    def has_news(self) -> bool:
        """Whether `news` has something to say that should not wait."""
        return self.unsaid >= FREE_AT_ONCE or bool(self._asked and self.settled)

    def news(self) -> list[tuple[bytes, Free | Claims]]:
        """What is to be said to which owner now. Who is not connected will ask when it is back."""
        news: list[tuple[bytes, Free | Claims]] = []
        for arena in list(self._free):
            free = self.take_free(arena)
            if free and arena in self._owners:
                news.append((self._owners[arena], Free(self._epoch, free)))
        if self.settled and self._asked:
            news += [(self._owners[each], self._claims(each)) for each in self._asked]
            self._asked.clear()
        return news

    def _claims(self, arena: int) -> Claims:
        newest = self._asked[arena]
        held = sorted(number for of, number in self.counts if of == arena and number <= newest)
        return Claims(self._epoch, newest, held)

    # -------------------------------------------------------------- looking

    def needed(self) -> set[int]:
        """The arenas whose files must stay."""
        return {arena for arena, _ in self.counts} | self.limbo.keys() | self._owners.keys()

    def doubtful(self) -> set[int]:
        """The arenas of which it matters whether their owner is dead."""
        return set(self.limbo)

    def arenas(self) -> list[tuple[int, bytes, int]]:
        """Every known arena: its id, its owner (b"" if that is not connected), its held slots."""
        held = Counter(arena for arena, _ in self.counts)
        known = sorted({*held, *self._owners})
        return [(arena, self._owners.get(arena, b""), held[arena]) for arena in known]

    @property
    def free(self) -> set[SlotKey]:
        """What owners are still to be told is free."""
        said_soon = [(arena, number) for arena, free in self._free.items() for number in free]
        return {*said_soon, *self._withheld}
