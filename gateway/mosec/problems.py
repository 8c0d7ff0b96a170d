"""Failures as MOSEC's clients know them: a status of its few, and a line of text. Pure.

The texts are part of its contract: clients compare them.
"""

import math
from collections.abc import Callable, Mapping

from broker.wire.errors import ERRORS, ErrorCode
from broker.wire.messages import Failure
from gateway.problems import Problem, words

TEXT_TYPE = "text/plain; charset=utf-8"
DRAINING = "gracefully shutting down"
NO_DATA = "no data provided"
_INTERNAL = "inference internal error"

_Text = Callable[[Failure], str]


def _always(text: str) -> _Text:
    return lambda failure: text


_ROWS: Mapping[int, tuple[int, _Text]] = {
    ErrorCode.BAD_BODY: (400, lambda failure: f"decoding error: {words(failure)}"),
    ErrorCode.BODY_TIMEOUT: (408, _always("the request body did not come in time")),
    ErrorCode.BODY_TOO_LARGE: (413, _always("request body is too large")),
    ErrorCode.QUEUE_FULL: (429, _always("too many request: task queue is full")),
    ErrorCode.OVERLOADED: (429, lambda failure: f"too many request: {words(failure)}"),
    ErrorCode.WORKER_ERROR: (500, _always(_INTERNAL)),
    ErrorCode.WORKER_CRASHED: (500, _always(_INTERNAL)),
    ErrorCode.OUT_OF_MEMORY: (500, _always(_INTERNAL)),
    ErrorCode.DRAINING: (503, _always(DRAINING)),
    ErrorCode.DEADLINE_EXCEEDED: (408, _always("inference timeout")),
}
"""Where MOSEC has no word of its own, status and message are those of the native routes."""

_STREAM_WORDS = {
    400: "400: Bad Request",
    408: "408: Request Timeout",
    422: "422: Unprocessable Content",
}
_STREAM_INTERNAL = "500: Internal Server Error"
_REFUSED_WHOLE = frozenset(
    {
        *(ErrorCode.BODY_TIMEOUT, ErrorCode.BODY_TOO_LARGE, ErrorCode.QUEUE_FULL),
        *(ErrorCode.OVERLOADED, ErrorCode.DRAINING, ErrorCode.NOT_READY, ErrorCode.WORKER_LOST),
        *(ErrorCode.UNSUPPORTED_TYPE, ErrorCode.BAD_HEADER, ErrorCode.EXPECTATION_FAILED),
    }
)


def text_problem(failure: Failure) -> Problem:
    """The answer for a failure; what a worker says itself stands as it says it."""
    row = ERRORS.get(failure.code)
    name = row.name if row is not None else "internal"
    if 400 <= failure.status <= 599:
        status, text = failure.status, failure.message
    elif failure.code in _ROWS:
        status, tell = _ROWS[failure.code]
        text = tell(failure)
    else:
        status, text = row.status if row is not None else 500, words(failure)
    extra = ""
    if status in (429, 503):
        extra = f"Retry-After: {max(1, math.ceil(failure.retry_after_s))}\r\n"
    return Problem(status, name, extra, text.encode("utf-8", "replace"))


def is_told_by_event(failure: Failure) -> bool:
    """Whether a route that answers value by value tells a failure by an event: what its workers
    found does not change the status any more.
    """
    return failure.code not in _REFUSED_WHOLE


def event_text(said: Problem) -> str:
    """What such an event says."""
    status = _STREAM_WORDS.get(said.status, _STREAM_INTERNAL)
    return f"SSE inference error: {status}: {said.body.decode()}"
