"""What of the gateway's memory the broker has been lent, by the requests in one table.

Pure. A body in shared memory goes out as a reference once in each life of the broker. To the same
broker it goes a second time only if that did not have it, or could not read it: then as bytes, so
that no word about the first time can be taken for one about the second.
"""

from collections.abc import Callable
from typing import TypeAlias

from broker.wire import frames
from broker.wire.memory import OwnMemory
from broker.wire.messages import Blob, Ref, SlotKey, SubmitItem

Fetch: TypeAlias = Callable[[Ref], memoryview]


class Loans:
    """The slots of all requests in one table."""

    __slots__ = ("_epochs", "_fetch", "_left", "_memory")

    def __init__(self, memory: OwnMemory, fetch: Fetch | None) -> None:
        """Without `fetch`, which reads a slot of ours, what is lent is lent again and again."""
        self._memory = memory
        self._fetch = fetch
        self._epochs: dict[SlotKey, int] = {}  # the broker's life that each slot was lent to
        self._left: list[Ref] = []

    def lend(self, item: SubmitItem, epoch: int) -> None:
        """The item goes out; where it must, its payload is changed to one of bytes before that."""
        refs = frames.refs_of(item.payload)
        fetch = self._fetch
        if fetch is None or all(self._is_new(ref, epoch) for ref in refs):
            self._epochs.update(((ref.arena, ref.generation), epoch) for ref in refs)
            self._memory.publish(refs)
        else:
            body = item.payload.body if type(item.payload) is Blob else b""
            item.payload = frames.blob(body, [bytes(fetch(ref)) for ref in refs])
            self._drop(refs)

    def _is_new(self, ref: Ref, epoch: int) -> bool:
        """Whether this broker has not been told of the slot, and the arena is still ours."""
        lent = self._epochs.get((ref.arena, ref.generation))
        return ref.arena == self._memory.arena and lent != epoch

    def leave(self, item: SubmitItem) -> None:
        """The item has left the table; its memory is dropped at the next `flush`."""
        self._left += frames.refs_of(item.payload)

    def flush(self) -> None:
        """Nobody looks any longer at what has left."""
        if self._left:
            left, self._left = self._left, []
            self._drop(left)

    @property
    def has_left(self) -> bool:
        """Whether `flush` has something to do."""
        return bool(self._left)

    def _drop(self, refs: list[Ref]) -> None:
        for ref in refs:
            self._epochs.pop((ref.arena, ref.generation), None)
        self._memory.drop(refs)
