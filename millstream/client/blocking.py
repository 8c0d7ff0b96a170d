"""`Client`: calls that block, for scripts and threads.

On the standard library's http.client: a connection is a plain socket that the calling thread reads
itself. A loop in a thread of its own would cost two changes of threads for each call.
"""

import contextlib
import random
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Any, NamedTuple, Self

from millstream.client.attempts import Attempts
from millstream.client.errors import CallFailed, NoAnswer
from millstream.client.events import Events, is_stream
from millstream.client.message import (
    ACCEPT,
    ACCEPT_STREAM,
    GRACE_S,
    Answer,
    Message,
    Place,
    answer,
    message,
    place,
)

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_S = 30.0
DEFAULT_RETRIES = 4
PIECE_BYTES = 1 << 16


class _Reply(NamedTuple):
    """A response whose body is still to be read, and the connection that it comes on."""

    connection: HTTPConnection
    response: HTTPResponse
    headers: dict[str, str]


class Client:
    """Calls the pipelines of one gateway. Any number of threads may share it.

    Connections are kept and used again: close it, or use it as a context manager.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`url` may be `http://host:port`, `https://…` or `unix:/path/of/socket`.

        `timeout_s` is the time of each call, all of its attempts together, unless it names another;
        `retries` how often it may be sent again; `headers` go with each, such as X-Api-Key.
        """
        self._place = place(url)
        self._timeout_s = timeout_s
        self._retries = retries
        self._headers = dict(headers or {})
        self._idle: list[HTTPConnection] = []  # append and pop are atomic

    def call(self, pipeline: str, value: Any, **options: Any) -> Any:
        """What the pipeline makes of one value: an array for an array, where it returns one.

        numpy arrays (which come back read-only), torch tensors, tuples, dicts and all that travels
        between stages arrive as they are; bytes are the body itself. `options` and errors: `ask`.
        """
        return self.ask(pipeline, value, **options).value

    def ask(
        self,
        pipeline: str,
        value: Any,
        *,
        version: str = "",
        content_type: str = "",
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Like `call`, with what comes beside the result: version, request id, timing.

        `content_type` is that of bytes, such as image/png, or application/json for a pipeline that
        reads no other. Sent again, with growing pauses, where the error is `retryable` or no answer
        came. Raises `CallFailed`, `NoAnswer`, `TooLate` or `BadAnswer` (all `ClientError`), and
        ValueError for a value that cannot be sent.
        """
        request = message(
            pipeline,
            value,
            version=version,
            content_type=content_type,
            accept=ACCEPT,
            headers=self._headers_with(headers),
        )
        attempts = self._attempts(timeout_s)
        while True:
            try:
                reply = self._send(request, attempts)
                return answer(reply.response.status, reply.headers, self._read(reply, attempts))
            except (CallFailed, NoAnswer) as error:
                time.sleep(attempts.pause_s(error, time.monotonic()))

    def stream(
        self,
        pipeline: str,
        value: Any,
        *,
        version: str = "",
        content_type: str = "",
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[Any]:
        """The values of a streamed answer, each as it comes; of any other answer its one value.

        `timeout_s` is the time until the first value, and between two. To stop early, close the
        iterator: the plug-in's generator is then stopped. Sent when the first value is asked for,
        and again like `ask` until an answer has begun; afterwards errors are raised where they
        occur, also those that the stream ends with.
        """
        request = message(
            pipeline,
            value,
            version=version,
            content_type=content_type,
            accept=ACCEPT_STREAM,
            headers=self._headers_with(headers),
        )
        attempts = self._attempts(timeout_s)
        while True:
            try:
                reply = self._send(request, attempts)
                if not is_stream(reply.response.status, reply.headers):
                    body = self._read(reply, attempts)
                    values = iter([answer(reply.response.status, reply.headers, body).value])
                else:
                    values = self._values(reply, timeout_s)
                break
            except (CallFailed, NoAnswer) as error:
                time.sleep(attempts.pause_s(error, time.monotonic()))
        yield from values

    def close(self) -> None:
        """Close the connections that are idle; calls may still follow."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ one attempt

    def _headers_with(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        return {"X-Request-Id": uuid.uuid4().hex, **self._headers, **(headers or {})}

    def _attempts(self, timeout_s: float | None) -> Attempts:
        return Attempts(
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            retries=self._retries,
            now=time.monotonic(),
            chance=random.random,
        )

    def _send(self, request: Message, attempts: Attempts) -> _Reply:
        """Until the head of the answer is there. A connection that was kept may have been closed by
        the gateway meanwhile, which costs no attempt.
        """
        while True:
            left_s = attempts.left_s(time.monotonic())
            kept = self._idle.pop() if self._idle else None
            connection = kept or _connection(self._place)
            try:
                response = _exchange(connection, self._place, request, left_s)
            except ConnectionError as error:
                connection.close()
                if kept is None:
                    raise NoAnswer(str(error) or type(error).__name__) from error
            except TimeoutError as error:
                connection.close()
                raise attempts.too_late() from error
            except (OSError, HTTPException) as error:
                connection.close()
                raise NoAnswer(str(error) or type(error).__name__) from error
            except BaseException:
                connection.close()
                raise
            else:
                headers = {name.lower(): text for name, text in response.getheaders()}
                return _Reply(connection, response, headers)

    def _read(self, reply: _Reply, attempts: Attempts) -> bytes:
        """The whole body; then the connection is free for the next call."""
        pieces = []
        complete = False
        try:
            while piece := _piece(reply, attempts.left_s(time.monotonic()) + GRACE_S):
                pieces.append(piece)
            if reply.response.length:
                raise NoAnswer("the answer broke off")
            complete = reply.connection.sock is not None  # else the gateway closes it
        except TimeoutError as error:
            raise attempts.too_late() from error
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"the answer broke off: {error}") from error
        finally:
            reply.response.close()
            if complete:
                self._idle.append(reply.connection)
            else:
                reply.connection.close()
        return b"".join(pieces)

    def _values(self, reply: _Reply, timeout_s: float | None) -> Iterator[Any]:
        events = Events(reply.headers["content-type"])
        waiting = self._attempts(timeout_s)
        try:
            while not (events.ended or events.failure):
                piece = _piece(reply, waiting.left_s(time.monotonic()))
                if not piece:
                    events.finish()
                    return
                for value in events.feed(piece):
                    yield value
                    waiting = self._attempts(timeout_s)
            if events.failure:
                raise events.failure
        except TimeoutError as error:
            raise waiting.too_late() from error
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"the stream broke off: {error}") from error
        finally:
            reply.connection.close()


class _UnixConnection(HTTPConnection):
    """http.client over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(to: Place) -> HTTPConnection:
    if to.socket_path:
        return _UnixConnection(to.socket_path)
    kind = HTTPSConnection if to.tls else HTTPConnection
    return kind(to.host, to.port)


def _exchange(
    connection: HTTPConnection, to: Place, request: Message, left_s: float
) -> HTTPResponse:
    """Send, and wait for the head of the answer. Raises OSError or HTTPException."""
    connection.timeout = left_s + GRACE_S
    if connection.sock is not None:
        connection.sock.settimeout(connection.timeout)
    # Where it answers before it has read all of a body, what comes then cannot be sent any more.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.request("POST", to.prefix + request.target, request.body, request.timed(left_s))
    if connection.sock is None:
        raise NoAnswer("the connection was not made")
    return connection.getresponse()


def _piece(reply: _Reply, left_s: float) -> bytes:
    """What has come of the body, at least a byte; b"" at its end."""
    if reply.connection.sock is not None:  # else it closes after this, and reads on without it
        reply.connection.sock.settimeout(left_s)
    return reply.response.read1(PIECE_BYTES)
