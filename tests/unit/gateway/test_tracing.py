"""When a trace is complete, and what spans it is made into."""

import asyncio
import os
import random
import signal
import socket
import statistics
import sys
import time

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from broker.wire.messages import RequestTrace, Visit
from gateway import exporter
from gateway.exporter import ExporterProcess
from gateway.options import GatewayOptions, Sampling
from gateway.server import CannotStart, Gateway
from gateway.spans import spans_of
from gateway.traced import NEVER, gap
from gateway.tracing import PATIENCE_S, Trace, Tracer

HALF = Sampling(0.5)
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VISIT = Visit("infer", 1, 0.0, 0.1, 0.5, size=1, phases=[0.05, 0.05, 0.1, 0.1])


class Bench:
    """A tracer, and what it has exported."""

    def __init__(self, sampling: Sampling = HALF) -> None:
        self.done: list[Trace] = []
        self.tracer = Tracer(self.done.append, sampling)

    def begin(self, traceparent: str = "", *, is_chosen: bool = True, seq: int = 1) -> Trace | None:
        """A request comes at 10 s, and is submitted at 10.1."""
        trace = self.tracer.begin(
            traceparent, "a=1", is_chosen=is_chosen, protocol="http", client="c", now=10.0
        )
        if trace is not None and seq:
            trace.seq, trace.submitted_s = seq, 10.1
            self.tracer.submitted([trace])
        return trace

    def end(self, trace: Trace, now: float) -> None:
        """It has its answer, or its client has gone."""
        trace.ended_s = now
        self.tracer.ended(trace)

    def tell(self, seq: int = 1, age_s: float = 0.6) -> None:
        """The broker tells of it."""
        self.tracer.told([RequestTrace(seq, age_s, [VISIT])])


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_client_decides_first(is_chosen: bool) -> None:
    bench = Bench()
    assert (bench.begin(is_chosen=is_chosen) is not None) is is_chosen
    assert (bench.begin("nonsense", is_chosen=is_chosen) is not None) is is_chosen
    assert bench.begin(f"00-{TRACE}-{SPAN}-00", is_chosen=is_chosen) is None
    trace = bench.begin(f"00-{TRACE}-{SPAN}-01", is_chosen=is_chosen)
    assert trace is not None
    assert (trace.context.trace_id, trace.parent and trace.parent.span_id) == (TRACE, SPAN)
    assert trace.tracestate == "a=1"


@pytest.mark.parametrize("ratio", [0.0, 0.25, 1.0])
def test_a_sampler_that_heeds_no_client_goes_by_the_trace_as_the_standards_does(
    ratio: float,
) -> None:
    standard = TraceIdRatioBased(ratio)
    bench = Bench(Sampling(ratio, heeds_clients=False))
    for number in range(64):
        trace_id = f"{number * 2**122 + number * 2**58 + 1:032x}"
        for flags in ("00", "01"):
            trace = bench.begin(f"00-{trace_id}-{SPAN}-{flags}", is_chosen=False, seq=0)
            decided = standard.should_sample(None, int(trace_id, 16), "").decision
            assert (trace is not None) is (decided is Decision.RECORD_AND_SAMPLE)
        if ratio:
            own = bench.begin(seq=0)
            assert own is not None
            decided = standard.should_sample(None, int(own.context.trace_id, 16), "").decision
            assert decided is Decision.RECORD_AND_SAMPLE


@pytest.mark.parametrize("ratio", [1e-4, 0.01, 0.5, 0.999])
def test_each_request_has_the_same_chance(ratio: float) -> None:
    random.seed(7)
    gaps = [gap(ratio) for _ in range(20_000)]
    # Of a geometric distribution the deviation is about as large as the mean.
    assert statistics.mean(gaps) == pytest.approx((1 - ratio) / ratio, rel=0.04, abs=0.001)
    assert gaps.count(0) / len(gaps) == pytest.approx(ratio, rel=0.1, abs=0.001)


def test_all_or_none_are_chosen() -> None:
    assert {gap(1.0) for _ in range(100)} == {0}
    assert {gap(0.0) for _ in range(100)} == {NEVER}


def test_it_is_complete_with_its_answer() -> None:
    bench = Bench()
    trace = bench.begin()
    assert trace is not None
    bench.tell()
    bench.tell(seq=7)  # of none that is known
    assert not bench.done
    bench.end(trace, 10.9)
    bench.tell()
    assert bench.done == [trace]


def test_what_ended_here_waits_for_the_broker_a_while() -> None:
    bench = Bench()
    told, untold = bench.begin(seq=1), bench.begin(seq=2)
    assert told is not None
    assert untold is not None
    for trace in (told, untold):
        trace.code = "deadline_exceeded"
        bench.end(trace, 11.0)
    bench.tracer.tick(11.0 + PATIENCE_S / 2)
    assert not bench.done
    bench.tell(seq=1, age_s=0.0)
    assert bench.done == [told]
    bench.tracer.tick(11.0 + PATIENCE_S)
    assert bench.done == [told, untold]


def test_one_that_was_never_submitted_is_a_span_alone() -> None:
    bench = Bench()
    trace = bench.begin(seq=0)
    assert trace is not None
    trace.status, trace.code = 503, "not_ready"
    bench.end(trace, 10.5)
    (span,) = spans_of(bench.done[0])
    assert (span.error, span.parent_id, span.end_s) == ("not_ready", b"", 10.5)


def ended(*visits: Visit, age_s: float = 0.6) -> Trace:
    """A request of a second, from 10 s on."""
    trace = Bench().begin()
    assert trace is not None
    trace.told = RequestTrace(1, age_s, list(visits))
    trace.ended_s, trace.status, trace.pipeline = 11.0, 200, "p"
    return trace


def test_spans_lie_in_the_middle_of_what_was_measured_around_them() -> None:
    # Submitted at 10.1, answered at 11.0; of that the broker had it for 0.6 s: 0.15 s each way.
    spans = {span.name: span for span in spans_of(ended(VISIT))}
    moments = {name: (span.start_s, span.end_s) for name, span in spans.items()}
    assert moments == {
        "infer p": (10.0, 11.0),
        "queue infer": (pytest.approx(10.25), pytest.approx(10.35)),
        "batch infer": (pytest.approx(10.35), pytest.approx(10.75)),
        "wait infer": (pytest.approx(10.4), pytest.approx(10.45)),
        "decode infer": (pytest.approx(10.45), pytest.approx(10.5)),
        "forward infer": (pytest.approx(10.5), pytest.approx(10.6)),
        "encode infer": (pytest.approx(10.6), pytest.approx(10.7)),
    }
    root, batch = spans["infer p"], spans["batch infer"]
    assert {spans[name].parent_id for name in ("queue infer", "batch infer")} == {root.span_id}
    assert spans["forward infer"].parent_id == batch.span_id


def test_what_had_not_ended_ends_with_the_request() -> None:
    waiting = replace(VISIT, sent_s=-1.0, ended_s=-1.0, outcome="deadline_exceeded", phases=[])
    running = replace(VISIT, ended_s=-1.0, outcome="deadline_exceeded", phases=[])
    queue = spans_of(ended(waiting))[-1]
    assert (queue.name, queue.end_s, queue.error) == ("queue infer", 11.0, "deadline_exceeded")
    batch = spans_of(ended(running))[-1]
    assert (batch.name, batch.end_s, batch.error) == ("batch infer", 11.0, "deadline_exceeded")


def test_figures_that_cannot_be_stay_within_the_request() -> None:
    mad = replace(VISIT, entered_s=-5.0, sent_s=4.0, ended_s=2.0, phases=[9.0, -1.0, 9.0, 9.0])
    for span in spans_of(ended(mad, age_s=99.0)):
        assert span.start_s <= span.end_s


def test_what_a_child_takes_with_it_is_counted() -> None:
    process = ExporterProcess(0.0)
    try:
        for _ in range(3):
            process.export(ended(VISIT))
        process.tick(0.5)
        child = process._popen
        assert child is not None
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        process.tick(1.0)
        assert process.dropped == 3
    finally:
        process.close()


@pytest.mark.parametrize(
    ("variables", "missing", "said"),
    [
        ({}, "opentelemetry.sdk.trace", r"pip install 'millstream\[otel\]'"),
        ({}, "opentelemetry.exporter.otlp.proto.http", r"pip install 'millstream\[otel\]'"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "opentelemetry.exporter.otlp.proto.grpc",
            "pip install 'opentelemetry-exporter-otlp-proto-grpc'",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"},
            "",
            "must be http/protobuf or grpc, not 'http/json'",
        ),
    ],
)
def test_a_gateway_that_cannot_trace_says_why(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], missing: str, said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    options = GatewayOptions(broker="ipc:///nowhere", sampling=HALF)
    with pytest.raises(CannotStart, match=said):
        asyncio.run(Gateway(options).run())


def test_a_child_that_ends_is_replaced_and_one_that_hangs_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporter, "FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(exporter, "BACKLOG_BYTES", 10_000)
    monkeypatch.setattr(exporter, "CLOSE_S", 0.1)
    process = ExporterProcess(0.0)
    try:
        first = process._popen
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        process.tick(0.5)
        assert process._popen is None or process._popen is not first
        process.tick(100.0)
        second = process._popen
        assert second is not None
        assert second is not first
        os.kill(second.pid, signal.SIGSTOP)
        until = time.monotonic() + 30.0
        while not process.dropped and time.monotonic() < until:
            for _ in range(100):
                process.export(ended(VISIT))
            process.tick(100.0)
        assert process.dropped
        assert process._backlog_bytes <= 10_000
    finally:
        process.close()


def test_what_a_child_tells_is_added_up() -> None:
    told = exporter.pack_fate(3, 0) + exporter.pack_fate(5, 2)
    assert exporter.unpack_fates(told) == (8, 2)
    assert exporter.unpack_fates(b"") == (0, 0)


def test_what_an_endpoint_does_not_take_is_counted_and_keeps_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody is there any more
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    process = ExporterProcess(0.0)
    try:
        process.export(ended(VISIT))
        process.export(ended(VISIT))
        until = time.monotonic() + 60.0
        while process.dropped < 2 and time.monotonic() < until:
            process.tick(1.0)
            time.sleep(0.05)  # it has no descriptor that tells
        assert process.dropped == 2
    finally:
        process.close()
