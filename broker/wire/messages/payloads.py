"""What messages carry: bodies, results, and what there is instead of one.

A `Blob`, a `Failure` and a `Streamed` are told apart by numbers of their own: they stand within
messages, where no kind does.
"""

from typing import TypeAlias

from msgspec import Struct

SlotKey: TypeAlias = tuple[int, int]
"""(arena, generation): names a slot for ever, since generations are never used again."""


class Ref(Struct, frozen=True, array_like=True, gc=False):
    """Bytes in shared memory: `length` of them, from `start` on in the slot whose header is at the
    offset `slot` of an arena's file and says this `generation`.
    """

    arena: int
    slot: int
    generation: int
    start: int
    length: int


class Blob(Struct, array_like=True, tag=1, gc=False):
    """A payload that is more than a few inline bytes: a body, and buffers beside it.

    `sizes` says how many buffers there are, and how long each is. A buffer travels as a frame, or
    stays in shared memory: then `refs`, which is empty or as long as `sizes`, says where. In memory
    `buffers` holds what came in frames, and None in the place of what is referred to; on the wire
    it is empty. `content_type` is set on answers that are not JSON.
    """

    body: bytes
    sizes: list[int] = []
    content_type: str = ""
    buffers: list[object] = []
    refs: list[Ref | None] = []

    def __len__(self) -> int:
        return len(self.body) + sum(self.sizes)


class Failure(Struct, array_like=True, tag=2, gc=False):
    """An item's outcome where there is no result. `status` 0 means the one of the code's row."""

    code: int
    message: str
    status: int = 0
    error_id: str = ""
    retry_after_s: float = 0.0


class Streamed(Struct, array_like=True, tag=3, gc=False):
    """An item's outcome where it is a stream. In `Results` it is open, and its values follow; at
    its end this says how many there were.
    """

    values: int = 0


Payload: TypeAlias = bytes | Blob
"""Opaque to the broker, which only asks for its len() in bytes."""

Outcome: TypeAlias = bytes | Blob | Failure | Streamed

StreamKey: TypeAlias = tuple[int, int]
"""Between broker and worker, what names a stream: its lease, and its item's place in that batch."""


class RequestMeta(Struct, array_like=True, gc=False):
    """What plug-ins may learn about the request: packed by the gateway, opaque to the broker."""

    request_id: str
    content_type: str = ""
    accept: str = ""
    traceparent: str = ""
    headers: dict[str, str] = {}
    tracestate: str = ""
