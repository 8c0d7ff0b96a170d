"""The body of one request while it comes in, piece by piece.

A large one whose size is known beforehand goes straight into shared memory; any other is collected.
It knows nothing of HTTP: the connection feeds it, and drops it where the body never becomes whole.
"""

from broker.payload.arena import ARENA_BYTES
from gateway.memory import Stored, UploadMemory

PLEDGE = 8
"""Shared memory for the whole is taken when an eighth has come: a client cannot tie up, with a
large Content-Length, more than a few times what it sends."""
_NEVER = 1 << 62


class Body:
    """Ends with `finish` or `drop`, whichever comes first; what comes second does nothing."""

    __slots__ = (
        "_expected_bytes",
        "_lead_bytes",
        "_memory",
        "_pieces",
        "_store_at_bytes",
        "_stored",
        "size_bytes",
    )

    def __init__(self, memory: UploadMemory, expected_bytes: int, lead_bytes: int = 0) -> None:
        """`expected_bytes` is exact, or 0 where the size is unknown or memory is not wanted.

        `lead_bytes`: see `UploadMemory.allocate`.
        """
        self._memory = memory
        self._expected_bytes = expected_bytes
        self._lead_bytes = lead_bytes
        large = expected_bytes >= ARENA_BYTES
        self._store_at_bytes = expected_bytes // PLEDGE if large else _NEVER
        self._pieces: list[bytes] = []
        self._stored: Stored | None = None
        self.size_bytes = 0

    def add(self, piece: bytes) -> None:
        """The next piece. All of them together are never more than was expected."""
        start = self.size_bytes
        end = self.size_bytes = start + len(piece)
        if self._stored is not None:
            self._stored.memory[start:end] = piece
            return
        self._pieces.append(piece)
        if end >= self._store_at_bytes:
            self._store()

    def _store(self) -> None:
        """Move what has come in to where all of it is to be, if there is room."""
        self._store_at_bytes = _NEVER
        stored = self._stored = self._memory.allocate(self._expected_bytes, self._lead_bytes)
        if stored is None:
            return
        start = 0
        for piece in self._pieces:
            end = start + len(piece)
            stored.memory[start:end] = piece
            start = end
        self._pieces = []

    def finish(self) -> bytes | Stored:
        """The whole body; what is in shared memory is the caller's to drop from now on."""
        stored, self._stored = self._stored, None
        if stored is not None:
            return stored
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def drop(self) -> None:
        """The rest will not come."""
        stored, self._stored = self._stored, None
        self._pieces = []
        if stored is not None:
            self._memory.drop([stored.ref])
