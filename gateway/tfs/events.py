"""CloudEvents: requests of KServe that come as events, and are answered as events of the same mode.

In binary mode the attributes of an event are headers, and its data is the body; in structured mode
all of it is one JSON object.
"""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum, auto

import msgspec
from msgspec import Struct

from broker.payload.media_types import JSON_TYPE
from broker.payload.tensor_bodies import Buffer
from gateway.dialect import BadRequest, Reply
from gateway.tfs import loose_json
from gateway.tfs.requests import Request

EVENT_TYPE = "application/cloudevents+json"
ANSWER_TYPE = "io.kserve.inference.response"

_REQUIRED = ("id", "source", "specversion", "type")
_VERSIONS = ("1.0", "0.3")


class Mode(Enum):
    """How a request came, and so how it is answered."""

    PLAIN = auto()
    BINARY = auto()
    STRUCTURED = auto()


class _Event(Struct):
    id: str
    source: str
    specversion: str
    type: str
    data: Request
    datacontenttype: str = JSON_TYPE


_read_plain = loose_json.reader(Request)
_read_event = loose_json.reader(_Event)


def mode_of(headers: Mapping[str, str]) -> Mode:
    """By the request's headers, whose names may be in any case."""
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == EVENT_TYPE:
        return Mode.STRUCTURED
    return Mode.BINARY if "ce-specversion" in headers else Mode.PLAIN


def read(mode: Mode, headers: Mapping[str, str], body: Buffer) -> Request:
    """The request in a body. Raises BadRequest."""
    if mode is Mode.STRUCTURED:
        event = _read_event(body)
        _check({name: getattr(event, name) for name in _REQUIRED})
        if event.datacontenttype.partition(";")[0].strip().lower() != JSON_TYPE:
            raise BadRequest(
                f"the data of an event must be JSON, not {event.datacontenttype!r:.80}"
            )
        return event.data
    if mode is Mode.BINARY:
        _check({name: headers.get(f"ce-{name}", "") for name in _REQUIRED})
    return _read_plain(body)


def reply(mode: Mode, model: str, body: bytes) -> Reply:
    """The answer with this JSON as its data."""
    if mode is Mode.PLAIN:
        return Reply([body], JSON_TYPE)
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": f"io.kserve.inference.{model}",
        "type": ANSWER_TYPE,
        "time": datetime.now(UTC).isoformat(),
    }
    if mode is Mode.BINARY:
        lines = "".join(f"ce-{name}: {value}\r\n" for name, value in attributes.items())
        return Reply([body], JSON_TYPE, lines)
    head = msgspec.json.encode(attributes)[:-1]
    return Reply([head + b',"data":', body, b"}"], EVENT_TYPE)


def _check(attributes: Mapping[str, str]) -> None:
    for name, value in attributes.items():
        if not value:
            raise BadRequest(f"the event has no {name!r}")
    if attributes["specversion"] not in _VERSIONS:
        raise BadRequest(f"the event's specversion is none of {', '.join(_VERSIONS)}")
