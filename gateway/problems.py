"""Failures to HTTP: the JSON of an error and the headers that come with its code.

Status, name and retryability of a code are looked up in `broker.wire.errors`, never said here.
"""

import math
from typing import NamedTuple

import msgspec

from broker.wire.errors import ERRORS, ErrorCode, ErrorRow
from broker.wire.messages import Failure
from gateway.headers import clean

_INTERNAL = ErrorRow("internal", 500, False)
"""For a number that the table does not know: a newer broker, or a bug."""


class Problem(NamedTuple):
    """A failure, as HTTP says it."""

    status: int
    code: str
    extra: str  # header lines, each with its line end
    body: bytes


def problem(failure: Failure, request_id: str, extra: str = "") -> Problem:
    """The answer for a failure; `extra` are further header lines."""
    row = ERRORS.get(failure.code, _INTERNAL)
    status = failure.status or row.status
    if not 400 <= status <= 599:
        status = row.status
    message = clean(failure.message)
    if failure.error_id:  # the worker's log has more under this id
        message = f"{message} (error {failure.error_id})"
    error = {"code": row.name, "message": message, "request_id": request_id}
    if row.retryable:
        extra += f"Retry-After: {max(1, math.ceil(failure.retry_after_s))}\r\n"
    return Problem(status, row.name, extra, msgspec.json.encode({"error": error}))


def text_problem(failure: Failure, request_id: str) -> Problem:
    """The same, as protocols of other servers have it: the error is its text alone."""
    said = problem(failure, request_id)
    text = msgspec.json.decode(said.body)["error"]["message"]
    return said._replace(body=msgspec.json.encode({"error": text}))


def refusal(code: ErrorCode, message: str) -> Failure:
    """A failure that the gateway itself finds."""
    return Failure(code, message, retry_after_s=1.0)
