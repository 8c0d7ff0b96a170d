"""What a gateway would answer: status, headers, body; and the traceback that it would not tell."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from broker.payload.bodies import decode_body
from broker.wire.messages import Failure
from gateway.headers import response_value
from gateway.problems import problem
from gateway.streams import EVENTS_TYPE, NDJSON_TYPE, Events, wants_ndjson
from millstream.chain.complaints import Complaint
from millstream.chain.run import Answered

JSON = "application/json"
_OK = 200


class AnswerError(AssertionError):
    """An answer is an error, and none was expected. The message has the plug-in's traceback."""


class Answer(Struct, kw_only=True):
    """One answer. `code` and `message` are those of an error, else ""; `trace` is the traceback of
    the plug-in behind it, or "". `values` are those of a stream, decoded; None of any other answer.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    code: str = ""
    message: str = ""
    trace: str = ""
    values: list[Any] | None = None

    @property
    def content_type(self) -> str:
        """Of the body."""
        return self.headers["Content-Type"]

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """What the body holds as JSON. Raises ValueError where it is none."""
        return msgspec.json.decode(self.body)

    def decoded(self) -> Any:
        """What the body holds by its content type: arrays, where the answer has them."""
        return decode_body(self.body, self.content_type)

    def raise_for_status(self) -> "Answer":
        """Itself, where it is no error. Raises AnswerError, with the traceback."""
        if not self.code:
            return self
        said = f"{self.status} {self.code}: {self.message}"
        raise AnswerError(f"{said}\n\n{self.trace.rstrip()}" if self.trace else said)

    def __repr__(self) -> str:
        """Its beginning is what pytest shows of it."""
        if self.code:
            last = self.trace.rstrip().rpartition("\n")[2]
            why = f": {last}" if last else ""
            return f"<Answer {self.status} {self.code} {self.message!r}{why}>"
        return f"<Answer {self.status} {self.content_type} {self.body[:200]!r}>"


class About(Struct):
    """What an answer's headers need of its request."""

    request_id: str
    version: str
    accept: str
    complaint: Callable[[str], Complaint | None]

    def headers(self, content_type: str) -> dict[str, str]:
        """Those of any answer but the time that it took."""
        headers = {"Content-Type": content_type, "X-Request-Id": self.request_id}
        if self.version:
            headers["X-Model-Version"] = response_value(self.version)
        return headers


def result(answered: Answered, about: About) -> Answer:
    """The answer that a result is."""
    content_type = response_value(answered.content_type) if answered.content_type else JSON
    return Answer(status=_OK, headers=about.headers(content_type), body=answered.body)


def error(failure: Failure, about: About) -> Answer:
    """The answer that a failure is."""
    said = problem(failure, about.request_id)
    told = msgspec.json.decode(said.body)["error"]
    headers = about.headers(JSON)
    for line in said.extra.splitlines():
        name, _, value = line.partition(": ")
        headers[name] = value
    return Answer(
        status=said.status,
        headers=headers,
        body=said.body,
        code=told["code"],
        message=told["message"],
        trace=_trace(failure, about),
    )


def _trace(failure: Failure, about: About) -> str:
    complaint = about.complaint(failure.error_id) if failure.error_id else None
    if complaint is None:
        return ""
    return complaint.trace or complaint.error


class _Written(Struct):
    """Where a gateway's events go to."""

    is_write_paused: bool = False
    parts: list[bytes] = field(default_factory=list)

    def part(self, data: bytes) -> None:
        self.parts.append(data)


def stream(steps: Iterator[bytes | Failure], about: About) -> Answer:
    """The answer that a stream is, once it has ended. One that breaks before its first value is an
    ordinary error; later it ends with an event of it, and the status is 200.
    """
    written = _Written()
    is_ndjson = wants_ndjson(about.accept)
    events = Events(written, lambda _values: None, is_ndjson=is_ndjson, now=0.0)
    values: list[Any] = []
    broken: Answer | None = None
    for step in steps:
        if isinstance(step, Failure):
            broken = error(step, about)
            if not values:
                return broken
            events.error(broken.body)
        else:
            events.value(step, 0.0)
            values.append(msgspec.json.decode(step))
    if broken is None:
        events.end(len(values))
    answer = Answer(
        status=_OK,
        headers=about.headers(NDJSON_TYPE if is_ndjson else EVENTS_TYPE),
        body=b"".join(written.parts),
        values=values,
    )
    if broken is not None:
        answer.code, answer.message, answer.trace = broken.code, broken.message, broken.trace
    return answer
