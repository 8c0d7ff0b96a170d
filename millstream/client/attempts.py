"""Whether and when a request is sent again. Pure: the time and chance are arguments.

Runs are at least once, so that a request may be sent again where no answer came; where one came,
the table of errors says. All attempts together keep one deadline, and each is sent with the rest.
"""

from collections.abc import Callable

from millstream.client.errors import CallFailed, ClientError, NoAnswer, TooLate

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
"""Pauses double from the first to the longest; each is cut by chance to half of it at the least, so
that clients that failed together do not come back together."""


class Attempts:
    """Those of one call."""

    def __init__(
        self, *, timeout_s: float, retries: int, now: float, chance: Callable[[], float]
    ) -> None:
        """`chance` gives numbers from 0 up to 1."""
        self._deadline = now + timeout_s
        self._timeout_s = timeout_s
        self._retries = retries
        self._chance = chance
        self._pause_s = FIRST_PAUSE_S

    def left_s(self, now: float) -> float:
        """How long this attempt may take. Raises TooLate where nothing is left."""
        left_s = self._deadline - now
        if left_s <= 0:
            raise self.too_late()
        return left_s

    def pause_s(self, error: ClientError, now: float) -> float:
        """How long to wait after this error before the request is sent again.

        Raises the error where it is not: where that cannot help, is not allowed, or would be after
        the deadline.
        """
        may_help = isinstance(error, NoAnswer) or (
            isinstance(error, CallFailed) and error.retryable
        )
        if not may_help or not self._retries:
            raise error
        self._retries -= 1
        pause_s = self._pause_s * (0.5 + 0.5 * self._chance())
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        if isinstance(error, CallFailed):
            pause_s = max(pause_s, error.retry_after_s)
        if now + pause_s >= self._deadline:
            raise error
        return pause_s

    def too_late(self) -> TooLate:
        """For whoever waited in vain."""
        return TooLate(f"no answer within {self._timeout_s:g} s")
