"""The shared memory of a process, as the pure parts of the protocol see it.

The messages speak of slots; who allocates, maps and looks at them is no concern of those who decide
what is said when. A worker's session and a gateway's table are given one of these.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from broker.wire.messages import Ref, SlotKey


class OwnMemory(Protocol):
    """A process's own arena.

    A slot is held from its allocation on by whoever asked for it, and from `publish` on by the
    broker; its memory is used again when neither holds it any longer.
    """

    @property
    def arena(self) -> int:
        """What the others call it; 0 while there is none."""

    @property
    def generation(self) -> int:
        """The newest slot in it."""

    def join(self, folder: str, token: str) -> bool:
        """A broker has named its folder: own an arena there if that can be.

        True if `arena` has changed, so that HELLO must be said again. Raises nothing.
        """

    def publish(self, refs: Sequence[Ref]) -> None:
        """These go to the broker: from now on it holds those of their slots that are ours."""

    def drop(self, refs: Sequence[Ref]) -> None:
        """Whoever asked for these slots of ours holds them no longer."""

    def free(self, generations: Sequence[int]) -> None:
        """The broker holds these no longer."""

    def settle(self, generation: int, held: Collection[int]) -> None:
        """Of the slots up to `generation` the broker holds these, and no others."""


class WorkerMemory(OwnMemory, Protocol):
    """The same, with the views that a worker's plug-in has of the slots of others."""

    def kept(self, slots: Collection[SlotKey]) -> list[SlotKey]:
        """Those of these slots that are still looked at; from now on they are counted as kept."""

    def gone(self) -> list[SlotKey]:
        """Slots counted as kept that nobody here looks at any longer; each is said once."""

    def all_kept(self) -> list[SlotKey]:
        """Every slot that is counted as kept."""


class NoMemory:
    """A process that shares no memory."""

    arena = 0
    generation = 0

    def join(self, folder: str, token: str) -> bool:
        return False

    def publish(self, refs: Sequence[Ref]) -> None:
        return

    def drop(self, refs: Sequence[Ref]) -> None:
        return

    def free(self, generations: Sequence[int]) -> None:
        return

    def settle(self, generation: int, held: Collection[int]) -> None:
        return

    def kept(self, slots: Collection[SlotKey]) -> list[SlotKey]:
        return []

    def gone(self) -> list[SlotKey]:
        return []

    def all_kept(self) -> list[SlotKey]:
        return []
