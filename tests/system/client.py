"""A plain HTTP client for tests: one keep-alive connection, and answers that are easy to compare.

Knows nothing of Millstream but the shape of its errors. Not fast: it is here to be believed.
"""

import http.client
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self


class HttpAnswer(NamedTuple):
    """What came back; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as objects."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code; "" for a result. AssertionError where an error has another shape."""
        if self.status < 400:
            return ""
        error = self.json()["error"]
        assert set(error) == {"code", "message", "request_id"}, error
        assert all(isinstance(value, str) for value in error.values()), error
        assert error["request_id"] == self.headers["x-request-id"]
        assert self.headers["content-type"] == "application/json"
        code: str = error["code"]
        return code


class Client:
    """One connection to a gateway on this host, opened at the first request and kept. A context
    manager; for one thread at a time."""

    def __init__(self, port: int, *, timeout_s: float = 20.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Open the connection, if it is not open. Raises OSError where nobody takes it."""
        if self._connection.sock is None:
            self._connection.connect()

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """Send, and wait for the answer. Raises OSError or http.client.HTTPException."""
        self._connection.request(method, path, body=body or None, headers=dict(headers or {}))
        response = self._connection.getresponse()
        content = response.read()
        names = {name.lower(): value for name, value in response.getheaders()}
        return HttpAnswer(response.status, names, content)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> HttpAnswer:
        """GET."""
        return self.request("GET", path, headers=headers)

    def post(
        self, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """POST; without headers there is no content type, which says JSON."""
        return self.request("POST", path, body, headers)

    def post_json(self, path: str, value: Any) -> HttpAnswer:
        """POST of a value as JSON."""
        return self.post(path, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()
