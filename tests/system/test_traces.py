"""A real OTLP receiver gets one connected trace for each request, whatever becomes of workers, and
of the receiver.
"""

import contextlib
import json
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, SpanFlags, Status

from tests.oip.faces import Ask, In, Rpc
from tests.ports import free_port
from tests.system.client import HttpAnswer
from tests.system.deployment import Deployment, Role, wait_until
from tests.system.receivers import HANGS, WITHIN_S, HttpReceiver, Received, RpcReceiver

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

PLUGIN = Path(__file__).parent / "plugins" / "passes.py"
PIPELINES = """
[pipelines.two]
chain = ["first", "last"]
"""
CLIENT_TRACE, CLIENT_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OFTEN = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


class Mill:
    """A gateway that traces all and exports over HTTP, and one that asks its clients and exports
    over gRPC, told by OpenTelemetry's own variables.
    """

    def __init__(self, deployment: Deployment, received: Received, rpc_url: str) -> None:
        self.deployment = deployment
        self.received = received
        deployment.broker()
        deployment.worker(f"{PLUGIN}:First")
        deployment.worker(f"{PLUGIN}:Last")
        self.gateway = deployment.gateway("--trace-sample", "1", "--access-log")
        self.few_port = free_port()
        self.grpc_address = f"127.0.0.1:{free_port()}"
        self.start(
            self.few_port,
            ("--grpc-port", self.grpc_address.rpartition(":")[2]),
            OTEL_TRACES_SAMPLER="parentbased_traceidratio",
            OTEL_TRACES_SAMPLER_ARG="0",
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
            OTEL_EXPORTER_OTLP_ENDPOINT=rpc_url,
            OTEL_EXPORTER_OTLP_HEADERS="x-tenant=us",
            OTEL_SERVICE_NAME="asked",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        )
        deployment.wait_ready()
        wait_until(self._few_is_ready, WITHIN_S)

    def start(self, port: int, options: tuple[str, ...] = (), **env: str) -> Role:
        """One more gateway."""
        return self.deployment.start("gateway", "--port", str(port), *options, env=env)

    def _few_is_ready(self) -> bool:
        try:
            with self.deployment.client(port=self.few_port) as client:
                return client.get("/readyz").status == 200
        except OSError:
            return False

    def ask(
        self,
        item: dict[str, Any],
        headers: dict[str, str] | None = None,
        *,
        port: int | None = None,
    ) -> HttpAnswer:
        with self.deployment.client(port=port) as client:
            body = json.dumps({"command": [json.dumps(item)]}).encode()
            return client.post("/inference", body, headers)

    def dropped(self, port: int) -> int:
        """How many traces this gateway counts as lost."""
        with self.deployment.client(port=port) as client:
            text = client.get("/metrics").body.decode()
        name = "millstream_gateway_traces_dropped_total "
        return int(float(text.partition(f"\n{name}")[2].partition("\n")[0]))


@pytest.fixture(scope="module")
def mill() -> Iterator[Mill]:
    received = Received()
    with contextlib.ExitStack() as stack:
        http = stack.enter_context(HttpReceiver(received))
        rpc = stack.enter_context(RpcReceiver(received))
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": http.url, **OFTEN}
        deployment = stack.enter_context(Deployment(pipelines=PIPELINES, env=env))
        yield Mill(deployment, received, rpc.url)


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
    spans = mill.received.trace(trace_id)
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
    assert mill.received.resources[trace_id]["service.name"] == "millstream"
    assert not root.flags & SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
    mill.gateway.wait_for_output(f"trace_id={trace_id}")


PHASES = ("queue", "batch", "decode", "forward", "encode")


def test_a_clients_span_is_the_parent_and_decides(mill: Mill) -> None:
    headers = {"traceparent": f"00-{CLIENT_TRACE}-{CLIENT_SPAN}-01", "tracestate": "a=1,b=2"}
    answer = mill.ask({}, headers, port=mill.few_port)
    assert answer.json()[1] == "a=1,b=2"
    spans = mill.received.trace(CLIENT_TRACE)
    root = assert_connected(spans)
    assert root.parent_span_id.hex() == CLIENT_SPAN
    assert root.trace_state == "a=1,b=2"
    assert root.flags & SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
    other = "1" * 32
    answer = mill.ask({}, {"traceparent": f"00-{other}-{CLIENT_SPAN}-00"})
    assert answer.json()[0] == f"00-{other}-{CLIENT_SPAN}-00"  # on it goes, untraced
    assert mill.ask({}, port=mill.few_port).json() == ["", ""]
    last = trace_of(mill.ask({}, {"traceparent": "00-zz"}))  # is none: a new one begins
    mill.received.trace(last)
    assert other not in mill.received.spans


def test_a_batch_is_linked_to_all_its_requests(mill: Mill) -> None:
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(mill.ask, {"slow": 0.5})
        wait_until(lambda: any(worker["running"] for worker in mill.deployment.workers()), WITHIN_S)
        others = [pool.submit(mill.ask, {}) for _ in range(4)]
        answers = [each.result() for each in (first, *others)]
    batches: dict[int, dict[bytes, Span]] = {}
    for answer in answers:
        for span in mill.received.trace(trace_of(answer)):
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
    spans = mill.received.trace(trace_of(answer))
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
    spans = mill.received.trace(trace_id)
    root = assert_connected(spans)
    assert (root.status.code, attributes(root)["error.type"]) == (
        Status.STATUS_CODE_ERROR,
        "deadline_exceeded",
    )
    assert {span.name for span in spans} == {"infer two", "queue first", "batch first"}


def test_it_goes_by_the_variables_of_the_standard(mill: Mill) -> None:
    trace_id = "3" * 32
    mill.ask({}, {"traceparent": f"00-{trace_id}-{CLIENT_SPAN}-01"}, port=mill.few_port)
    mill.received.trace(trace_id)
    resource = mill.received.resources[trace_id]
    assert resource["service.name"] == "asked"
    assert resource["deployment.environment.name"] == "test"
    assert any(each.get("x-tenant") == "us" for each in mill.received.headers)


def test_a_call_over_grpc_brings_its_trace(mill: Mill) -> None:
    trace_id = "4" * 32
    context = {"traceparent": f"00-{trace_id}-{CLIENT_SPAN}-01", "tracestate": "a=1"}
    command = In("command", "BYTES", [1], struct.pack("<I", 2) + b"{}")
    ask = Ask([command], model="two", headers=context)
    with Rpc(mill.grpc_address) as rpc:
        said = rpc.ask(ask)
        assert said.code == "OK", said.text
        untraced = rpc.ask(Ask([command], model="two"))
    assert trace_id not in str(untraced.outputs)
    root = assert_connected(mill.received.trace(trace_id))
    assert (root.parent_span_id.hex(), root.trace_state) == (CLIENT_SPAN, "a=1")
    assert attributes(root)["network.protocol.name"] == "grpc"
    ((_, _, _, told),) = said.outputs
    assert f"00-{trace_id}-{root.span_id.hex()}-01".encode() in told


def test_a_receiver_that_fails_costs_traces_alone_and_all_are_counted(mill: Mill) -> None:
    port, receiver_port = free_port(), free_port()
    began_s = time.monotonic()
    gateway = mill.start(
        port,
        OTEL_TRACES_SAMPLER="traceidratio",
        OTEL_TRACES_SAMPLER_ARG="0.5",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{receiver_port}",
        OTEL_EXPORTER_OTLP_TIMEOUT="0.5",
        OTEL_BSP_MAX_QUEUE_SIZE="8",
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE="4",
    )
    gateway.wait_for_output("event=broker_up")
    asked: list[str] = []

    def ask(count: int = 1) -> None:
        for _ in range(count):
            asked.append(f"{len(asked) + 1:032x}")
            # Its client does not sample: a sampler that heeds no parent goes by the id.
            headers = {"traceparent": f"00-{asked[-1]}-{CLIENT_SPAN}-00"}
            assert mill.ask({}, headers, port=port).status == 200

    def kept() -> int:
        return sum(each in mill.received.spans for each in asked)

    beyond = f"{2**128 - 1:032x}"
    sampled = {"traceparent": f"00-{beyond}-{CLIENT_SPAN}-01"}
    assert mill.ask({}, sampled, port=port).status == 200
    ask()
    wait_until(lambda: mill.dropped(port) == 1, WITHIN_S, "nobody is there")
    with HttpReceiver(mill.received, port=receiver_port, status=503) as receiver:
        ask()
        wait_until(lambda: mill.dropped(port) == 2, WITHIN_S, "it refuses")
        receiver.turn(200)
        while not kept():  # it has been given up again, where this machine is very slow
            ask()
            wait_until(lambda: kept() + mill.dropped(port) == len(asked), WITHIN_S)
        receiver.turn(HANGS)
        ask(30)  # more than have room
        wait_until(lambda: mill.dropped(port) > 2, WITHIN_S, "it is slow")
        receiver.turn(200)
        wait_until(lambda: kept() + mill.dropped(port) == len(asked), WITHIN_S, "all are counted")
        assert kept() >= 1
        receiver.turn(HANGS)
        before = receiver.asked
        ask()
        wait_until(lambda: receiver.asked > before, WITHIN_S, "it has begun to export")
        gateway.stop()
    assert beyond not in mill.received.spans
    most = 1 + int((time.monotonic() - began_s) / 60)
    for said in ('event="traces dropped"', "Failed to export"):
        assert 1 <= gateway.output.count(said) <= most, gateway.output
