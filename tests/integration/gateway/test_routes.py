"""Paths of a pipeline's own, and what is said at those of MOSEC's kind."""

import threading

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, MosecInfo
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker, digits
from tests.integration.gateway.harness import PATIENCE_S, RunningGateway

MOSEC = digits(routes=["/inference", "/v1/x"], mosec=MosecInfo("mine"))


def test_a_route_leads_to_its_pipeline_and_answers_as_its_name_does(
    address: str, start_gateway: StartGateway
) -> None:
    with FakeBroker(address, pipelines=[digits(routes=["/v1/embed"])]) as broker:
        gateway = start_gateway().wait_until_ready()
        answer = gateway.request("POST", "/v1/embed", b"7")
        assert (answer.status, answer.body) == (200, b"7")
        broker.respond = lambda item: Failure(ErrorCode.QUEUE_FULL, "full")
        refused = gateway.request("POST", "/v1/embed", b"7")
        assert refused.headers["content-type"] == "application/json"
        assert gateway.counted(200, version="v1") == 1


@pytest.mark.parametrize(
    ("failure", "status", "text"),
    [
        (
            Failure(ErrorCode.QUEUE_FULL, "full", retry_after_s=3.0),
            429,
            b"too many request: task queue is full",
        ),
        (Failure(ErrorCode.DEADLINE_EXCEEDED, "late"), 408, b"inference timeout"),
        (Failure(ErrorCode.WORKER_LOST, "gone", retry_after_s=1.0), 503, b"gone"),
    ],
)
def test_failures_of_the_engine_in_mosecs_words(
    address: str, start_gateway: StartGateway, failure: Failure, status: int, text: bytes
) -> None:
    with FakeBroker(address, pipelines=[MOSEC], respond=lambda item: failure):
        gateway = start_gateway().wait_until_ready()
        answer = gateway.request("POST", "/v1/x", b"1")
        assert (answer.status, answer.body) == (status, text)
        assert ("retry-after" in answer.headers) == (status in (429, 503))
        lines = gateway.request("GET", "/metrics").body.decode().splitlines()
        assert f'mine_throughput_total{{code="{status}",endpoint="/v1/x"}} 1' in lines


def test_natively_the_same_pipeline_answers_as_any_other(
    address: str, start_gateway: StartGateway
) -> None:
    failure = Failure(ErrorCode.QUEUE_FULL, "full", retry_after_s=3.0)
    with FakeBroker(address, pipelines=[MOSEC], respond=lambda item: failure):
        gateway = start_gateway().wait_until_ready()
        answer = gateway.post()
        assert (answer.status, answer.headers["content-type"]) == (429, "application/json")
        assert answer.headers.get("server") is None


def test_metrics_are_shown_without_a_broker_that_answers(
    address: str, start_gateway: StartGateway
) -> None:
    with FakeBroker(address, pipelines=[MOSEC]) as broker:
        broker.report = lambda ask: None
        gateway = start_gateway().wait_until_ready()
        assert gateway.request("POST", "/inference", b"1").status == 200
        text = gateway.request("GET", "/metrics").body.decode()
        assert 'mine_throughput_total{code="200",endpoint="/inference"} 1' in text.splitlines()


def test_nobody_is_listened_to_before_all_stages_are_ready(
    address: str, start_gateway: StartGateway
) -> None:
    unready = digits()
    unready.stages[0].reason = "no ready worker"
    begun = threading.Event()
    found: list[RunningGateway] = []

    def start() -> None:
        found.append(start_gateway(listens_when_ready=True))
        begun.set()

    with FakeBroker(address, pipelines=[unready]) as broker:
        starting = threading.Thread(target=start)
        starting.start()
        broker.wait_for(lambda: broker.hellos, "a hello")
        assert not begun.wait(0.3)
        unready.stages[0].reason = ""
        broker.announce()
        starting.join(PATIENCE_S)
        assert found[0].request("GET", "/readyz").status == 200
