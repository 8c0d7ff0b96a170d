"""The error codes of the whole system, and the one table of what each means over HTTP.

The code, its status and whether a retry may help are said here and nowhere else: the core and the
workers name a code, the gateway looks up its row. `ProtocolError` is a peer's fault and never ours.
"""

from enum import IntEnum
from typing import NamedTuple


class ProtocolError(Exception):
    """A peer sent bytes that are no message of this protocol; drop them, count them, go on."""


class ErrorCode(IntEnum):
    """Why a request was not answered with a result. The numbers travel: never renumber."""

    BAD_BODY = 1
    BAD_HEADER = 2
    BAD_REQUEST = 3
    UNKNOWN_PIPELINE = 4
    UNKNOWN_VERSION = 5
    NOT_FOUND = 6
    METHOD_NOT_ALLOWED = 7
    BODY_TIMEOUT = 8
    BODY_TOO_LARGE = 9
    UNSUPPORTED_TYPE = 10
    EXPECTATION_FAILED = 11
    HEADERS_TOO_LARGE = 12
    REJECTED = 13
    QUEUE_FULL = 14
    CLIENT_GONE = 15
    WORKER_ERROR = 16
    WORKER_CRASHED = 17
    NOT_READY = 18
    OVERLOADED = 19
    DRAINING = 20
    WORKER_LOST = 21
    DEADLINE_EXCEEDED = 22
    PAYLOAD_LOST = 23
    OUT_OF_MEMORY = 24
    UNAUTHORIZED = 25
    FORBIDDEN = 26


class ErrorRow(NamedTuple):
    """What one code means to a client."""

    name: str
    status: int
    retryable: bool  # the same request may succeed later; 429 and 503 then carry Retry-After


def _row(code: ErrorCode, status: int, *, retryable: bool = False) -> tuple[ErrorCode, ErrorRow]:
    return code, ErrorRow(code.name.lower(), status, retryable)


ERRORS: dict[int, ErrorRow] = dict(
    (
        _row(ErrorCode.BAD_BODY, 400),
        _row(ErrorCode.BAD_HEADER, 400),
        _row(ErrorCode.BAD_REQUEST, 400),
        _row(ErrorCode.UNKNOWN_PIPELINE, 404),
        _row(ErrorCode.UNKNOWN_VERSION, 404),
        _row(ErrorCode.NOT_FOUND, 404),
        _row(ErrorCode.METHOD_NOT_ALLOWED, 405),
        _row(ErrorCode.BODY_TIMEOUT, 408),
        _row(ErrorCode.BODY_TOO_LARGE, 413),
        _row(ErrorCode.UNSUPPORTED_TYPE, 415),
        _row(ErrorCode.EXPECTATION_FAILED, 417),
        _row(ErrorCode.HEADERS_TOO_LARGE, 431),
        _row(ErrorCode.REJECTED, 400),  # unless the plug-in names another 4xx
        _row(ErrorCode.QUEUE_FULL, 429, retryable=True),
        _row(ErrorCode.CLIENT_GONE, 499),  # in logs and metrics only: nobody is there to be told
        _row(ErrorCode.WORKER_ERROR, 500),
        _row(ErrorCode.WORKER_CRASHED, 500),
        _row(ErrorCode.NOT_READY, 503, retryable=True),
        _row(ErrorCode.OVERLOADED, 503, retryable=True),
        _row(ErrorCode.DRAINING, 503, retryable=True),
        _row(ErrorCode.WORKER_LOST, 503, retryable=True),
        _row(ErrorCode.DEADLINE_EXCEEDED, 504),
        _row(ErrorCode.UNAUTHORIZED, 401),  # these two below /admin only
        _row(ErrorCode.FORBIDDEN, 403),
        # Between worker and broker only: the item begins anew, or is run by another worker.
        _row(ErrorCode.PAYLOAD_LOST, 503, retryable=True),
        _row(ErrorCode.OUT_OF_MEMORY, 503, retryable=True),
    )
)
