"""A request for a page whose body says more about what is wanted: read first, answered then.

See `gateway.connection.Call`, which it is one of. Such bodies are small, and no item comes of them.
"""

from collections.abc import Callable

from broker.wire.errors import ErrorCode
from gateway.body import Body
from gateway.memory import Stored, UploadMemory

MAX_BYTES = 1 << 16


class Asking:
    """`answer` is called with the body, or `refuse` where it cannot be had."""

    __slots__ = ("_answer", "_memory", "_refuse", "due")

    def __init__(
        self,
        memory: UploadMemory,
        answer: Callable[[bytes], None],
        refuse: Callable[[ErrorCode, str], None],
    ) -> None:
        self._memory = memory
        self._answer = answer
        self._refuse = refuse
        self.due = float("inf")

    def grow(self, size_bytes: int) -> bool:
        """See the module, as for all below."""
        if size_bytes <= MAX_BYTES:
            return True
        self._refuse(ErrorCode.BODY_TOO_LARGE, f"the body is larger than {MAX_BYTES} bytes")
        return False

    def body(self) -> Body:
        return Body(self._memory, 0)

    def run_whole(self, body: bytes) -> None:
        if self.grow(len(body)):
            self._answer(body)

    def run(self, body: bytes | Stored) -> None:
        assert isinstance(body, bytes), "it was never to lie in shared memory"
        self._answer(body)

    def late(self, now: float) -> None:
        self._refuse(ErrorCode.BODY_TIMEOUT, "the body did not arrive in time")

    def fail(self, code: ErrorCode, message: str) -> None:
        self._refuse(code, message)

    def drained(self) -> None:
        """Nothing is sent bit by bit."""

    def gone(self) -> None:
        """Nothing is held."""
