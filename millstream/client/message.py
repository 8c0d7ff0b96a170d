"""What a call sends, and what its answer means. Pure: no sockets, no clock.

A value goes out as `application/vnd.millstream.objects`, in which arrays and tensors stay what they
are, and bytes as they are; the answer comes back likewise, as JSON or msgpack where the pipeline
has a content type of its own.
"""

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from broker.payload.bodies import decode_body, encode_body
from broker.payload.errors import CannotTravel, PayloadError
from broker.payload.media_types import BYTES_TYPE, OBJECTS_TYPE, parse_media_type
from broker.payload.objects import pack
from millstream.client.errors import BadAnswer, CallFailed

ACCEPT = f"{OBJECTS_TYPE}, application/msgpack;q=0.9, application/json;q=0.8, */*;q=0.1"
ACCEPT_STREAM = f"text/event-stream, {ACCEPT}"
GRACE_S = 0.25
"""The gateway answers at the deadline that it was told; its answer needs a moment to come back."""
_SHOWN_CHARS = 200


class Place(NamedTuple):
    """Where a gateway is."""

    host: str
    port: int
    tls: bool = False
    prefix: str = ""  # before each path, where a proxy wants one
    socket_path: str = ""  # a Unix socket; host and port then say nothing


class Message(NamedTuple):
    """One request, but for the time that it is given."""

    target: str
    headers: dict[str, str]
    body: bytes

    def timed(self, left_s: float) -> dict[str, str]:
        """The headers of an attempt with so much time; less than a millisecond is one."""
        return {**self.headers, "X-Timeout-Ms": f"{max(left_s * 1e3, 1.0):.3f}"}


class Answer(NamedTuple):
    """A result, and what came with it."""

    value: Any
    version: str
    """The release of the model that answered; "" where workers name none."""
    request_id: str
    timing_ms: dict[str, float]
    """By name, such as "infer-queue" and "infer-run"; of the whole chain."""


class Problem(msgspec.Struct):
    """What it says about the error."""

    code: str
    message: str
    request_id: str = ""


class ErrorBody(msgspec.Struct):
    """An error's JSON."""

    error: Problem


def place(url: str) -> Place:
    """`http://host:port`, `https://host/prefix`, or `unix:/path/of/socket`; else ValueError."""
    if url.startswith("unix:"):
        return Place("localhost", 0, socket_path=url.removeprefix("unix:"))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is no URL of a gateway, such as http://127.0.0.1:8000")
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    return Place(parts.hostname, port, tls, parts.path.rstrip("/"))


def message(
    pipeline: str,
    value: object,
    *,
    version: str,
    content_type: str,
    accept: str,
    headers: Mapping[str, str],
) -> Message:
    """The request. Raises ValueError for what cannot be sent."""
    body, kind = encode(value, content_type)
    target = f"/pipelines/{quote(pipeline, safe='')}"
    if version:
        target += f"/versions/{quote(version, safe='')}"
    return Message(target, {"Content-Type": kind, "Accept": accept, **headers}, body)


def encode(value: object, content_type: str = "") -> tuple[bytes, str]:
    """The body for a value and its content type, which is chosen where none is given.

    Raises ValueError for what that type cannot hold.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value), content_type or BYTES_TYPE
    kind, parameters = parse_media_type(content_type or OBJECTS_TYPE)
    if kind.startswith("text/") and isinstance(value, str):
        return value.encode(parameters.get("charset", "utf-8")), content_type
    try:
        if kind == OBJECTS_TYPE:
            return pack(value, spill_bytes=sys.maxsize)[0], OBJECTS_TYPE
        body, written = encode_body(value, kind)
    except CannotTravel as error:
        because = f" ({error.reason})" if error.reason else ""
        raise ValueError(f"value{error.path}: {error.type_name} cannot be sent{because}") from error
    if written != kind:
        raise ValueError(f"only bytes can be sent as {content_type}, not {type(value).__name__}")
    return bytes(body), content_type


def answer(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """What came back; `headers` by name in lower case.

    Raises CallFailed for an error, and BadAnswer for what cannot be read.
    """
    if not 200 <= status <= 299:
        raise failure(status, headers, body)
    try:
        value = decode_body(body, headers.get("content-type", BYTES_TYPE))
    except PayloadError as error:
        raise BadAnswer(str(error)) from error
    return Answer(
        value,
        headers.get("x-model-version", ""),
        headers.get("x-request-id", ""),
        timing_ms(headers.get("server-timing", "")),
    )


def failure(status: int, headers: Mapping[str, str], body: bytes) -> CallFailed:
    """An answer with an error, whoever gave it: there may be a proxy before the gateway."""
    try:
        problem = msgspec.json.decode(body, type=ErrorBody).error
    except msgspec.MsgspecError:
        problem = Problem("", body[:_SHOWN_CHARS].decode("utf-8", "replace"))
    return CallFailed(
        status,
        problem.code,
        problem.message,
        request_id=problem.request_id or headers.get("x-request-id", ""),
        retry_after_s=_seconds(headers.get("retry-after", "")),
    )


def timing_ms(server_timing: str) -> dict[str, float]:
    """A Server-Timing header as durations in milliseconds; what has none is left out."""
    durations = {}
    for entry in server_timing.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        for parameter in parameters:
            key, _, text = parameter.partition("=")
            if key == "dur" and text.replace(".", "", 1).isdigit():
                durations[name] = float(text)
    return durations


def _seconds(retry_after: str) -> float:
    """Retry-After in its form of seconds; dates, which gateways never send, count as none."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
