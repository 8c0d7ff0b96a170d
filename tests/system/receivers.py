"""Receivers of traces, as any collector has them: OTLP over HTTP and over gRPC."""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.ports import free_port
from tests.system.deployment import wait_until

WITHIN_S = 30.0
HANGS = -1


class Received:
    """All spans that have come, however they came."""

    def __init__(self) -> None:
        self.spans: dict[str, list[Span]] = {}  # by trace
        self.resources: dict[str, dict[str, str]] = {}  # likewise
        self.headers: list[dict[str, str]] = []

    def take(self, request: ExportTraceServiceRequest, headers: Iterable[tuple[str, Any]]) -> None:
        """What one request brings."""
        self.headers.append({name.lower(): str(value) for name, value in headers})
        for group in request.resource_spans:
            resource = {each.key: each.value.string_value for each in group.resource.attributes}
            for scope in group.scope_spans:
                for span in scope.spans:
                    trace_id = span.trace_id.hex()
                    self.spans.setdefault(trace_id, []).append(span)
                    self.resources[trace_id] = resource

    def trace(self, trace_id: str) -> list[Span]:
        """The spans of a trace, which come together."""
        return wait_until(lambda: self.spans.get(trace_id), WITHIN_S) or []


class HttpReceiver:
    """A context manager. It answers with `status`, where that is 200 having taken the spans; HANGS:
    not before its end, or before the status is another.
    """

    def __init__(self, received: Received, *, port: int | None = None, status: int = 200) -> None:
        self.status = status
        self.asked = 0
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.asked += 1
                if (status := receiver._answer()) == 200:
                    request = ExportTraceServiceRequest.FromString(body)
                    received.take(request, self.headers.items())
                self.send_response(status)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:  # the other side waited no longer
                    self.close_connection = True

            def finish(self) -> None:
                try:
                    super().finish()
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port or free_port()), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _answer(self) -> int:
        with self._changed:
            if self.status == HANGS:
                self._changed.wait_for(lambda: self.status != HANGS)
                return 503
            return self.status

    def turn(self, status: int) -> None:
        """From now on it answers with this, those that wait with 503."""
        with self._changed:
            self.status = status
            self._changed.notify_all()

    def __enter__(self) -> "HttpReceiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.turn(503)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class RpcReceiver(TraceServiceServicer):
    """A context manager."""

    def __init__(self, received: Received) -> None:
        self._received = received
        self._server = grpc.server(ThreadPoolExecutor(1))
        add_TraceServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def Export(self, request: Any, context: Any) -> ExportTraceServiceResponse:
        """See the base class."""
        self._received.take(request, context.invocation_metadata())
        return ExportTraceServiceResponse()

    def __enter__(self) -> "RpcReceiver":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
