"""MOSEC's numbers for what became of a task. (Its socket protocol is not spoken here.)"""

from enum import IntFlag


class HTTPStatusCode(IntFlag):
    """What a worker's exception bears as its `code`."""

    OK = 1
    BAD_REQUEST = 2
    VALIDATION_ERROR = 4
    INTERNAL_ERROR = 8
    TIMEOUT_ERROR = 16
    STREAM_EVENT = 32768


STATUSES = {
    HTTPStatusCode.BAD_REQUEST: 400,
    HTTPStatusCode.VALIDATION_ERROR: 422,
    HTTPStatusCode.INTERNAL_ERROR: 500,
    HTTPStatusCode.TIMEOUT_ERROR: 408,
}
"""Over HTTP; anything else is 500."""
