"""What can go wrong with a call: one class for each thing that a caller may do about it.

CallFailed   the gateway answered with an error; `code` says which, `retryable` whether the same
             request may succeed later (it has been sent again already, as often as allowed)
NoAnswer     the connection was not made, or ended before the answer: the request may have run
TooLate      the time of the call was over before an answer came: it may have run, or still run
BadAnswer    what came is no answer of a gateway, or not what its content type says
"""

from broker.wire.errors import ERRORS

_RETRYABLE = frozenset(row.name for row in ERRORS.values() if row.retryable)


class ClientError(Exception):
    """The root of what calls raise, but for ValueError where a value cannot be sent at all."""


class CallFailed(ClientError):
    """An answer with an error. A stream may end with one, too, after values."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        request_id: str = "",
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        """The HTTP status."""
        self.code = code
        """The name of the error, such as "queue_full"; "" where no gateway of ours answered."""
        self.message = message
        self.request_id = request_id
        """The gateway's and the worker's logs name it."""
        self.retry_after_s = retry_after_s

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, by the one table of errors."""
        return self.code in _RETRYABLE


class NoAnswer(ClientError):
    """The connection could not be made, or ended too early."""


class TooLate(ClientError):
    """No answer within the time that the call was given."""


class BadAnswer(ClientError):
    """Nothing that can be read as an answer."""
