"""The bytes of a streamed answer to its values, as they come. Pure.

Server-sent events hold one JSON value each, and the last is an `end` or an `error`; in NDJSON each
line is a value, the last one perhaps an error.
"""

from collections.abc import Mapping

import msgspec

from broker.payload.errors import UnsupportedType
from broker.payload.media_types import parse_media_type
from millstream.client.errors import BadAnswer, CallFailed, NoAnswer
from millstream.client.message import ErrorBody, Problem

EVENTS_TYPE = "text/event-stream"
LINES_TYPE = "application/x-ndjson"
STREAM_STATUS = 200


def is_stream(status: int, headers: Mapping[str, str]) -> bool:
    """Whether an answer comes value by value; `headers` by name in lower case."""
    try:
        kind, _ = parse_media_type(headers.get("content-type", ""))
    except UnsupportedType:
        return False
    return status == STREAM_STATUS and kind in (EVENTS_TYPE, LINES_TYPE)


class _ErrorLine(ErrorBody, forbid_unknown_fields=True):
    """What no value is taken for by chance."""


class Events:
    """Feed it what comes until it has `ended` or there is a `failure`, and at the end `finish`."""

    def __init__(self, content_type: str) -> None:
        self.ended = False
        """Nothing more will come, and nothing is missing."""
        self.failure: CallFailed | None = None
        """The stream ended with this error, after the values that `feed` gave."""
        self._is_lines = parse_media_type(content_type)[0] == LINES_TYPE
        self._rest = bytearray()
        self._event = ""
        self._data: list[bytearray] = []

    def feed(self, data: bytes) -> list[object]:
        """The values that are complete by now. Raises BadAnswer for what is no JSON."""
        self._rest += data
        if b"\n" not in data:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        values: list[object] = []
        take = self._take_line if self._is_lines else self._take_field
        for line in lines:
            take(line.removesuffix(b"\r"), values)
        return values

    def finish(self) -> None:
        """The answer is at its end, in order. Raises NoAnswer where it is none of the stream."""
        if not self._is_lines and not self.ended:
            raise NoAnswer("the stream broke off")
        if self._rest:
            raise NoAnswer("the stream broke off within a value")

    def _take_line(self, line: bytearray, values: list[object]) -> None:
        if not line:
            return
        try:
            self.failure = _failed(msgspec.json.decode(line, type=_ErrorLine).error)
        except msgspec.MsgspecError:
            values.append(_json(line))

    def _take_field(self, line: bytearray, values: list[object]) -> None:
        """One line of an event; an empty one ends it. Comments keep the connection alive."""
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                self._event = value.decode("utf-8", "replace")
            elif name == b"data":
                self._data.append(value)
            return
        event, self._event = self._event, ""
        data, self._data = self._data, []
        if event == "end":
            self.ended = True
        elif event == "error":
            self.failure = _read_failure(b"\n".join(data))
        elif data:
            values.append(_json(b"\n".join(data)))


def _read_failure(data: bytes) -> CallFailed:
    try:
        return _failed(msgspec.json.decode(data, type=ErrorBody).error)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"the stream's error cannot be read: {error}") from error


def _failed(problem: Problem) -> CallFailed:
    return CallFailed(STREAM_STATUS, problem.code, problem.message, request_id=problem.request_id)


def _json(data: bytes | bytearray) -> object:
    try:
        return msgspec.json.decode(data)
    except ValueError as error:
        raise BadAnswer(f"a value of the stream is no JSON: {error}") from error
