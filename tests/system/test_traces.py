"""A real OTLP receiver gets one connected trace for each request, whatever becomes of workers."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.ports import free_port
from tests.system.client import HttpAnswer
from tests.system.deployment import Deployment, wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

PLUGIN = Path(__file__).parent / "plugins" / "passes.py"
PIPELINES = """
[pipelines.two]
chain = ["first", "last"]
"""
CLIENT_TRACE, CLIENT_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
WITHIN_S = 30.0


class Collector:
    """Takes spans over OTLP, as any collector does."""

    def __init__(self) -> None:
        self.spans: dict[str, list[Span]] = {}  # by trace
        self.resources: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                length = int(self.headers["Content-Length"])
                collector.take(ExportTraceServiceRequest.FromString(self.rfile.read(length)))
                body = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.grpc_headers: list[str] = []
        """What gateways that speak gRPC say in `x-tenant`."""
        self._grpc = grpc.server(ThreadPoolExecutor(2))
        add_TraceServiceServicer_to_server(_Servicer(self), self._grpc)  # type: ignore[no-untyped-call]
        self.grpc_url = f"http://127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self._grpc.start()
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for group in request.resource_spans:
            self.resources.append(
                {each.key: each.value.string_value for each in group.resource.attributes}
            )
            for scope in group.scope_spans:
                for span in scope.spans:
                    self.spans.setdefault(span.trace_id.hex(), []).append(span)

    def trace(self, trace_id: str) -> list[Span]:
        """The spans of a trace, which come together."""
        return wait_until(lambda: self.spans.get(trace_id), WITHIN_S) or []

    def close(self) -> None:
        self._grpc.stop(None).wait()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Servicer(TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(
        self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        headers = dict(context.invocation_metadata())
        self._collector.grpc_headers.append(str(headers.get("x-tenant")))
        self._collector.take(request)
        return ExportTraceServiceResponse()


class Mill:
    def __init__(self, deployment: Deployment, collector: Collector) -> None:
        self.deployment = deployment
        self.collector = collector
        deployment.broker()
        deployment.worker(f"{PLUGIN}:First")
        deployment.worker(f"{PLUGIN}:Last")
        self.gateway = deployment.gateway("--trace-sample", "1", "--access-log")
        self.few_port = free_port()
        deployment.gateway("--trace-sample", "0", port=self.few_port)
        deployment.wait_ready()
        wait_until(self._few_is_ready, WITHIN_S)

    def _few_is_ready(self) -> bool:
        try:
            with self.deployment.client(port=self.few_port) as client:
                return client.get("/readyz").status == 200
        except OSError:
            return False

    def ask(
        self, item: object, headers: dict[str, str] | None = None, *, port: int | None = None
    ) -> HttpAnswer:
        with self.deployment.client(port=port) as client:
            return client.post("/inference", json.dumps(item).encode(), headers)


@pytest.fixture(scope="module")
def mill() -> Iterator[Mill]:
    collector = Collector()
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    try:
        with Deployment(pipelines=PIPELINES, env=env) as deployment:
            yield Mill(deployment, collector)
    finally:
        collector.close()


def trace_of(answer: HttpAnswer) -> str:
    """The trace that the last stage was told of."""
    assert answer.status == 200, answer.body
    traceparent: str = answer.json()[0]
    return traceparent.split("-")[1]


def attributes(span: Span) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value") or "")
        for each in span.attributes
    }


def assert_connected(spans: list[Span]) -> Span:
    """One root, each other within its parent; returns the root."""
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    (root,) = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if span is not root:
            parent = by_id[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano + 1000
            assert span.end_time_unix_nano <= parent.end_time_unix_nano + 1000
    return root


def test_a_request_is_one_trace_through_all_processes(mill: Mill) -> None:
    answer = mill.ask({}, {"X-Request-Id": "mine"})
    trace_id = trace_of(answer)
    spans = mill.collector.trace(trace_id)
    names = [span.name for span in spans if not span.name.startswith("wait")]
    phases = [f"{phase} {stage}" for stage in ("first", "last") for phase in PHASES]
    assert sorted(names) == sorted(["infer two", *phases])
    root = assert_connected(spans)
    assert root.parent_span_id == b""
    assert answer.json()[0] == f"00-{trace_id}-{root.span_id.hex()}-01"
    said = attributes(root)
    assert (said["millstream.request_id"], said["millstream.pipeline"]) == ("mine", "two")
    assert said["http.response.status_code"] == 200
    (batch,) = [span for span in spans if span.name == "batch last"]
    pids = {worker["pid"] for worker in mill.deployment.workers()}
    assert attributes(batch)["process.pid"] in pids
    assert attributes(batch)["millstream.attempt"] == 1
    assert {each["service.name"] for each in mill.collector.resources} == {"millstream"}
    mill.gateway.wait_for_output(f"trace_id={trace_id}")


PHASES = ("queue", "batch", "decode", "forward", "encode")


def test_a_clients_span_is_the_parent_and_decides(mill: Mill) -> None:
    headers = {"traceparent": f"00-{CLIENT_TRACE}-{CLIENT_SPAN}-01", "tracestate": "a=1,b=2"}
    answer = mill.ask({}, headers, port=mill.few_port)
    assert answer.json()[1] == "a=1,b=2"
    spans = mill.collector.trace(CLIENT_TRACE)
    root = assert_connected(spans)
    assert root.parent_span_id.hex() == CLIENT_SPAN
    assert root.trace_state == "a=1,b=2"
    other = "1" * 32
    answer = mill.ask({}, {"traceparent": f"00-{other}-{CLIENT_SPAN}-00"})
    assert answer.json()[0] == f"00-{other}-{CLIENT_SPAN}-00"  # on it goes, untraced
    assert mill.ask({}, port=mill.few_port).json() == ["", ""]
    last = trace_of(mill.ask({}, {"traceparent": "00-zz"}))  # is none: a new one begins
    mill.collector.trace(last)
    assert other not in mill.collector.spans


def test_a_batch_is_linked_to_all_its_requests(mill: Mill) -> None:
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(mill.ask, {"slow": 0.5})
        wait_until(lambda: any(worker["running"] for worker in mill.deployment.workers()), WITHIN_S)
        others = [pool.submit(mill.ask, {}) for _ in range(4)]
        answers = [each.result() for each in (first, *others)]
    batches: dict[int, dict[bytes, Span]] = {}
    for answer in answers:
        for span in mill.collector.trace(trace_of(answer)):
            if span.name == "batch first":
                number = attributes(span)["millstream.batch.id"]
                batches.setdefault(number, {})[span.trace_id] = span
    assert max(len(members) for members in batches.values()) > 1
    for members in batches.values():
        for span in members.values():
            assert {link.trace_id for link in span.links} == set(members)
            assert attributes(span)["millstream.batch.size"] == len(members)


def test_both_attempts_of_a_request_are_shown(mill: Mill) -> None:
    answer = mill.ask({"die": str(mill.deployment.folder / "died")})
    spans = mill.collector.trace(trace_of(answer))
    assert_connected(spans)
    lost, ran = [span for span in spans if span.name == "batch first"]
    assert (lost.status.code, attributes(lost)["error.type"]) == (
        Status.STATUS_CODE_ERROR,
        "worker_lost",
    )
    assert ran.status.code == Status.STATUS_CODE_UNSET
    assert (attributes(lost)["millstream.attempt"], attributes(ran)["millstream.attempt"]) == (1, 2)
    assert attributes(lost)["process.pid"] != attributes(ran)["process.pid"]
    assert sum(span.name == "queue first" for span in spans) == 2


def test_a_request_that_is_too_late_shows_where_it_was(mill: Mill) -> None:
    trace_id = "2" * 32
    headers = {"traceparent": f"00-{trace_id}-{CLIENT_SPAN}-01", "X-Timeout-Ms": "200"}
    assert mill.ask({"slow": 1.0}, headers).status == 504
    spans = mill.collector.trace(trace_id)
    root = assert_connected(spans)
    assert (root.status.code, attributes(root)["error.type"]) == (
        Status.STATUS_CODE_ERROR,
        "deadline_exceeded",
    )
    assert {span.name for span in spans} == {"infer two", "queue first", "batch first"}


def test_an_endpoint_that_hangs_holds_nothing_up(mill: Mill) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = free_port()
        gateway = mill.deployment.start(
            "gateway",
            *("--port", str(port), "--trace-sample", "1"),
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"},
        )
        gateway.wait_for_output("event=broker_up")
        for _ in range(20):
            assert mill.ask({}, port=port).status == 200
        silent.settimeout(WITHIN_S)
        with silent.accept()[0]:  # it has begun to export
            assert mill.ask({}, port=port).status == 200
            gateway.stop()


def test_over_grpc_as_opentelemetrys_own_variables_have_it(mill: Mill) -> None:
    """A sampler without `parentbased_` asks no client."""
    port = free_port()
    gateway = mill.deployment.start(
        "gateway",
        *("--port", str(port)),
        env={
            "OTEL_EXPORTER_OTLP_ENDPOINT": mill.collector.grpc_url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=mine",
            "OTEL_SERVICE_NAME": "mill",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "OTEL_TRACES_SAMPLER": "traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.5",
        },
    )
    gateway.wait_for_output("event=broker_up")
    low, high = "5" * 16 + "0" * 16, "5" * 16 + "f" * 16
    for trace_id, flags in ((high, "01"), (low, "00")):
        traceparent = f"00-{trace_id}-{CLIENT_SPAN}-{flags}"
        assert mill.ask({}, {"traceparent": traceparent}, port=port).status == 200
    root = assert_connected(mill.collector.trace(low))
    assert root.parent_span_id.hex() == CLIENT_SPAN
    assert high not in mill.collector.spans
    assert set(mill.collector.grpc_headers) == {"mine"}
    (resource,) = [each for each in mill.collector.resources if each["service.name"] == "mill"]
    assert resource["deployment.environment.name"] == "test"
    gateway.stop()
