"""What a gateway says as MOSEC does: failures, events, metrics, the OpenAPI document. Pure."""

import msgspec
import pytest

from broker.wire.errors import ErrorCode
from broker.wire.measures import Counts
from broker.wire.messages import Failure, MosecInfo, PipelineInfo, StageInfo
from gateway.catalog import PipelineView
from gateway.mosec import metrics, openapi
from gateway.mosec.events import MosecEvents
from gateway.mosec.problems import event_text, is_told_by_event, text_problem


@pytest.mark.parametrize(
    ("failure", "status", "text"),
    [
        (Failure(ErrorCode.REJECTED, "why", 422), 422, "why"),
        (Failure(ErrorCode.WORKER_ERROR, "internal error: why", 500), 500, "internal error: why"),
        (Failure(ErrorCode.WORKER_ERROR, "hidden", 0, "id"), 500, "inference internal error"),
        (Failure(ErrorCode.WORKER_CRASHED, "hidden"), 500, "inference internal error"),
        (Failure(ErrorCode.DEADLINE_EXCEEDED, "late"), 408, "inference timeout"),
        (Failure(ErrorCode.QUEUE_FULL, "full"), 429, "too many request: task queue is full"),
        (Failure(ErrorCode.OVERLOADED, "too late"), 429, "too many request: too late"),
        (Failure(ErrorCode.BODY_TOO_LARGE, "large"), 413, "request body is too large"),
        (Failure(ErrorCode.DRAINING, "bye"), 503, "gracefully shutting down"),
        (Failure(ErrorCode.NOT_READY, "no worker"), 503, "no worker"),
        (Failure(ErrorCode.BAD_BODY, "bad"), 400, "decoding error: bad"),
        (Failure(999, "new"), 500, "new"),
    ],
)
def test_failures(failure: Failure, status: int, text: str) -> None:
    said = text_problem(failure)
    assert (said.status, said.body.decode()) == (status, text)
    assert ("Retry-After" in said.extra) == (status in (429, 503))


def test_a_stream_tells_by_an_event_what_workers_found() -> None:
    late = Failure(ErrorCode.DEADLINE_EXCEEDED, "late")
    assert is_told_by_event(late)
    assert event_text(text_problem(late)) == (
        "SSE inference error: 408: Request Timeout: inference timeout"
    )
    assert is_told_by_event(Failure(ErrorCode.REJECTED, "why", 400))
    assert not is_told_by_event(Failure(ErrorCode.QUEUE_FULL, "full"))


class Wire:
    """What a client gets."""

    is_write_paused = False

    def __init__(self) -> None:
        self.sent = b""

    def part(self, data: bytes) -> None:
        self.sent += data


def test_events_are_text_and_the_end_is_no_event() -> None:
    wire = Wire()
    taken: list[int] = []
    events = MosecEvents(wire, taken.append, is_ndjson=False, now=0.0)
    for text in ("ü", "a\nb\r\nc\rd", "", "data: x"):
        events.value(msgspec.json.encode(text), 0.0)
    events.end(4)
    assert wire.sent.decode() == (
        "data: ü\n\ndata: a\ndata: b\ndata: c\ndata: d\n\ndata: \n\ndata: data: x\n\n"
    )
    wire.sent = b""
    events.error(b"it\nbroke")
    assert wire.sent == b"event: error\ndata: it\ndata: broke\n\n"


def counts(*numbers: int) -> Counts:
    return Counts((1.0, 2.0), list(numbers), 0.5)


def test_metrics_have_whole_numbers_and_sum_what_pipelines_share() -> None:
    stage = {
        "max_batch_size": 8,
        "counts": {"sizes": counts(1, 2, 0), "fill": counts(0, 0, 1), "forward": counts(3, 0, 0)},
    }
    alone = {"max_batch_size": 1, "counts": stage["counts"]}
    status = {
        "pipelines": {
            "a": {"stages": {"s_1": stage, "t_2": alone, "native": {"max_batch_size": 4}}},
            "b": {"stages": {"s_1": stage}},
        }
    }
    stages = metrics.stages_of(msgspec.json.encode(status))
    assert set(stages) == {"s_1", "t_2"}
    shown = metrics.Shown({('/in"f', 200): 3}, counts(1, 0, 0), 2)
    lines = metrics.text("my", shown, stages).splitlines()
    assert 'my_throughput_total{code="200",endpoint="/in\\"f"} 3' in lines
    assert 'my_batch_size_bucket{stage="s_1",connection="all",le="1.0"} 2' in lines
    assert 'my_batch_size_bucket{stage="s_1",connection="all",le="+Inf"} 6' in lines
    assert 'my_batch_size_sum{stage="s_1",connection="all"} 1.0' in lines
    assert not any(line.startswith('my_batch_size_bucket{stage="t_2"') for line in lines)
    assert 'my_process_duration_second_count{stage="t_2",connection="all"} 3' in lines
    assert lines[-1] == "my_remaining_task 2"
    assert metrics.stages_of(None) == {}


def test_the_document_has_the_routes_of_these_pipelines_alone() -> None:
    told = {
        "request_body": {"content": {"application/msgpack": {"schema": {"type": "integer"}}}},
        "responses": {"200": {"description": "n", "content": {}}},
        "schemas": {"A": {"type": "object"}},
    }
    mosec = MosecInfo(openapi=msgspec.json.encode(told).decode())
    views = [
        PipelineView(PipelineInfo("a", [StageInfo("s")], routes=["/a", "/b"], mosec=mosec)),
        PipelineView(PipelineInfo("b", [StageInfo("s")], routes=["/c"])),
    ]
    document = msgspec.json.decode(openapi.document(views))
    assert set(document["paths"]) == {"/", "/metrics", "/a", "/b"}
    operation = document["paths"]["/b"]["post"]
    assert operation["requestBody"] == told["request_body"]
    assert operation["responses"]["200"] == {"description": "n", "content": {}}
    assert document["components"]["schemas"] == told["schemas"]
