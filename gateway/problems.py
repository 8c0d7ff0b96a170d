"""Failures to HTTP, the JSON of an error and the headers that come with its code; and to gRPC.

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

_GRPC_CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    412: "FAILED_PRECONDITION",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""By HTTP status; other statuses of a client's fault are INVALID_ARGUMENT, of ours INTERNAL."""


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
    error = {"code": row.name, "message": words(failure), "request_id": request_id}
    if row.retryable:
        extra += f"Retry-After: {max(1, math.ceil(failure.retry_after_s))}\r\n"
    return Problem(status, row.name, extra, msgspec.json.encode({"error": error}))


def text_problem(failure: Failure, request_id: str) -> Problem:
    """The same, as protocols of other servers have it: the error is its text alone."""
    said = problem(failure, request_id)
    return said._replace(body=msgspec.json.encode({"error": words(failure)}))


def words(failure: Failure) -> str:
    """What a client is told."""
    message = clean(failure.message)
    if failure.error_id:  # the worker's log has more under this id
        message = f"{message} (error {failure.error_id})"
    return message


def grpc_code(status: int) -> str:
    """What gRPC calls an HTTP status of ours, or of a plug-in's `Reject`."""
    return _GRPC_CODES.get(status) or ("INVALID_ARGUMENT" if status < 500 else "INTERNAL")


def refusal(code: ErrorCode, message: str) -> Failure:
    """A failure that the gateway itself finds."""
    return Failure(code, message, retry_after_s=1.0)
