"""A real gateway in a thread, and a client that can break every rule of HTTP."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import uvloop

from gateway.options import GatewayOptions
from gateway.server import Gateway

PATIENCE_S = 15.0


class RunningGateway:
    """A gateway that serves on a free port; a context manager that drains it at the end."""

    def __init__(self, options: GatewayOptions) -> None:
        self.gateway = Gateway(options)
        self.port = 0
        self._listening = threading.Event()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> "RunningGateway":
        self._thread.start()
        assert self._listening.wait(PATIENCE_S)
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()

    def stop(self) -> None:
        """Begin to drain."""
        with contextlib.suppress(RuntimeError):  # it may have ended already
            self._loop.call_soon_threadsafe(self.gateway.stop)

    def join(self) -> None:
        """Until it has ended."""
        self._thread.join(2 * PATIENCE_S)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self.gateway.run(self._has_begun))
        except BaseException as error:
            self._error = error
        finally:
            self._loop.close()
            self._listening.set()

    def _has_begun(self, port: int) -> None:
        self.port = port
        self._listening.set()

    # -------------------------------------------------------------- requests

    def connect(self) -> "RawClient":
        """A new connection."""
        return RawClient(self.port)

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> "Response":
        """One request on a connection of its own."""
        with self.connect() as client:
            client.send_request(method, target, body, headers)
            return client.read_response(head_only=method == "HEAD")

    def post(
        self, body: bytes = b"1", headers: dict[str, str] | None = None, pipeline: str = "digits"
    ) -> "Response":
        """One request for inference."""
        return self.request("POST", f"/pipelines/{pipeline}", body, headers)

    def wait_until_ready(self) -> "RunningGateway":
        """Until the broker's catalog has come in and all is ready."""
        self.wait_for(lambda: self.request("GET", "/readyz").status == 200, "never ready")
        return self

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Until the condition, which asks this gateway, holds."""
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < until, what

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, by its name and labels as they are written."""
        text = self.request("GET", "/metrics").body.decode()
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    def counted(self, status: int, pipeline: str = "digits", version: str = "") -> float:
        """How often requests for inference ended so."""
        labels = f'pipeline="{pipeline}",status="{status}",version="{version}"'
        return self.metrics().get(f"millstream_requests_total{{{labels}}}", 0.0)


@dataclass
class Response:
    """What came back; header names in lower case."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error code, checked to come in the form in which all errors come."""
        assert self.headers["content-type"] == "application/json"
        error = self.json()["error"]
        assert error["message"]
        assert error["request_id"] == self.headers["x-request-id"]
        return str(error["code"])


class RawClient:
    """One TCP connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._buffer = b""

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """These bytes, whatever they are."""
        self.socket.sendall(data)

    def send_request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """A well-formed request."""
        lines = {"Host": "test", **(headers or {})}
        if body is not None and "Transfer-Encoding" not in lines:
            lines.setdefault("Content-Length", str(len(body)))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.send(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b""))

    def read_response(self, *, head_only: bool = False) -> Response:
        """The next response, interim ones (1xx) included."""
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        response = Response(int(status_line.split(" ")[1]))
        for line in lines:
            name, _, value = line.partition(": ")
            response.headers[name.lower()] = value
        if response.status >= 200 and not head_only:
            size_bytes = int(response.headers["content-length"])
            while len(self._buffer) < size_bytes:
                self._receive()
            response.body, self._buffer = self._buffer[:size_bytes], self._buffer[size_bytes:]
        return response

    def _receive(self) -> None:
        data = self.socket.recv(1 << 16)
        assert data, f"the connection ended; unread: {self._buffer[:200]!r}"
        self._buffer += data

    def receive_some(self) -> bytes:
        """Whatever comes next, as it is."""
        data = self.socket.recv(1 << 16)
        assert data, "the connection ended"
        return data

    def is_closed(self, within_s: float = PATIENCE_S) -> bool:
        """Whether the gateway ends the connection in time, without another byte."""
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(PATIENCE_S)
