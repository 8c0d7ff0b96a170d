"""What a protocol of tensors is to a call: how its requests are read, and its answers written.

The call itself (deadline, bounds, delivery, metrics) is the same for all protocols.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from broker.payload.tensor_bodies import Buffer, TensorPart
from broker.wire.messages import Failure
from gateway.problems import Problem

QUICK_BYTES = 1 << 16
"""Values up to this size are written as JSON, or compressed, in about a millisecond."""


class BadRequest(Exception):
    """The request is not what the protocol, or what the pipeline declares; the message says why."""


class Input(Struct, frozen=True):
    """One tensor of a request: its values, or where in the body they lie."""

    name: str
    datatype: str
    shape: list[int]
    data: bytes | None = None
    start: int = 0
    end: int = 0

    @property
    def size_bytes(self) -> int:
        """Of its values."""
        return self.end - self.start if self.data is None else len(self.data)


class TensorRequest(Struct, frozen=True):
    """A request that fits its pipeline."""

    inputs: list[Input]
    timeout_s: float = 0.0
    """0 where the client names none."""
    priority: int | None = None
    """None where the client names none."""
    names: bytes = b""
    """The inputs as `pack_names` has them, where that is known already and they are large."""


class Reply(Struct, frozen=True):
    """An answer: its body in pieces, and header lines."""

    pieces: list[Buffer]
    content_type: str
    extra: str = ""


class Dialect(Protocol):
    """One request's. `read` and `write` may be called in a thread, one after the other."""

    def head_bytes(self, body_bytes: int) -> int:
        """How much of such a body lies before its raw tensors. Never raises."""

    def read(self, body: Buffer) -> TensorRequest:
        """Raises BadRequest. Copies no raw tensor."""

    def is_quick(self, parts: Sequence[TensorPart]) -> bool:
        """Whether `write` takes about as long as other things that are done at once."""

    def write(self, parts: Sequence[TensorPart], version: str) -> Reply:
        """Raises BadRequest where the client asked for what cannot be."""

    def problem(self, failure: Failure, request_id: str) -> Problem:
        """A failure as this protocol says it."""
