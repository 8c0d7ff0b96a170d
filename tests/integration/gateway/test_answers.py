"""What clients get for requests that are well-formed: results, errors, pages, headers."""

import re

import pytest

from broker.wire import frames
from broker.wire.errors import ERRORS, ErrorCode
from broker.wire.messages import Answer, Blob, Failure, Priority
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker, body_of, digits
from tests.integration.gateway.harness import RunningGateway


def test_a_result_comes_with_its_headers(gateway: RunningGateway) -> None:
    response = gateway.post(b'{"x": 1}', {"Content-Type": "application/json"})
    assert response.status == 200
    assert response.body == b'{"x": 1}'
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-model-version"] == "v1"
    assert response.headers["server-timing"] == (
        "prepare-queue;dur=1.000, prepare-run;dur=2.000, infer-queue;dur=3.000, infer-run;dur=4.000"
    )
    assert re.fullmatch(r"[0-9a-f]+", response.headers["x-request-id"])
    assert response.headers["date"].endswith("GMT")
    assert "connection" not in response.headers
    assert gateway.counted(200, version="v1") == 1


def test_what_the_broker_is_told(broker: FakeBroker, gateway: RunningGateway) -> None:
    gateway.request(
        "POST",
        "/pipelines/digits/versions/v7",
        b"\x00\x01",
        {
            "Content-Type": "application/x-thing",
            "Accept": "application/msgpack",
            "traceparent": "00-ab-cd-01",
            "X-Tenant": "acme",
            "X-Other": "unseen",
            "X-Request-Id": "mine",
            "X-Priority": "High",
            "X-Timeout-Ms": "2500",
        },
    )
    (item,) = broker.wait_for_items(1)
    meta = frames.decode_meta(item.meta)
    assert (item.pipeline, item.version, item.priority) == ("digits", "v7", Priority.HIGH)
    assert 2.0 < item.left_s <= 2.5
    assert not item.again
    assert body_of(item) == b"\x00\x01"
    assert (meta.request_id, meta.content_type) == ("mine", "application/x-thing")
    assert (meta.accept, meta.traceparent) == ("application/msgpack", "00-ab-cd-01")
    assert meta.headers == {"x-tenant": "acme"}


def test_the_timeout_is_never_lengthened(broker: FakeBroker, gateway: RunningGateway) -> None:
    gateway.post(headers={"X-Timeout-Ms": "3600000"})
    (item,) = broker.wait_for_items(1)
    assert 9.0 < item.left_s <= 10.0


def test_fair_shares_go_by_key_else_by_address(broker: FakeBroker, gateway: RunningGateway) -> None:
    for headers in ({}, {}, {"X-Api-Key": "a"}, {"X-Api-Key": "b"}, {"X-Api-Key": "a"}):
        gateway.post(headers=headers)
    first, second, key_a, key_b, key_a_again = (i.client for i in broker.wait_for_items(5))
    assert first == second
    assert key_a == key_a_again
    assert len({first, key_a, key_b}) == 3


@pytest.mark.parametrize("size_bytes", [0, 1, 4096, 4097, 300_000, 8 << 20])
def test_bodies_of_every_size_arrive_whole(gateway: RunningGateway, size_bytes: int) -> None:
    body = bytes(range(251)) * (size_bytes // 251 + 1)
    assert gateway.post(body[:size_bytes]).body == body[:size_bytes]


def test_a_result_of_many_buffers(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda _: frames.blob(b"ab", [b"c" * 70_000, b"d"], "application/msgpack")
    response = gateway.post()
    assert response.body == b"ab" + b"c" * 70_000 + b"d"
    assert response.headers["content-type"] == "application/msgpack"


def test_the_content_type_of_plain_bytes(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda item: Answer(item.seq, b"hi", content_type="text/plain")
    assert gateway.post().headers["content-type"] == "text/plain"


def test_no_worker_can_split_a_response(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda item: Answer(
        item.seq, Blob(b"x", content_type="a/b\r\nX-Evil: 1"), "v1\r\nX-Evil: 1"
    )
    response = gateway.post()
    assert "x-evil" not in response.headers
    assert response.headers["x-model-version"] == "v1X-Evil: 1"


@pytest.mark.parametrize("code", [c for c in ErrorCode if c not in {ErrorCode.DRAINING}])
def test_every_failure_has_its_row(
    broker: FakeBroker, gateway: RunningGateway, code: ErrorCode
) -> None:
    broker.respond = lambda _: Failure(code, "because", retry_after_s=2.2)
    row = ERRORS[code]
    response = gateway.post()
    assert (response.status, response.code) == (row.status, row.name)
    assert response.headers.get("retry-after") == ("3" if row.retryable else None)
    assert gateway.counted(row.status, version="v1") == 1


def test_a_rejection_names_its_own_status(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda _: Failure(ErrorCode.REJECTED, "no digit", status=422)
    response = gateway.post()
    assert (response.status, response.code) == (422, "rejected")


def test_an_error_id_is_passed_on(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda _: Failure(ErrorCode.WORKER_ERROR, "it raised", error_id="e-17")
    assert gateway.post().json()["error"]["message"] == "it raised (error e-17)"


def test_a_code_from_the_future_is_our_fault(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda _: Failure(9999, "new")
    assert gateway.post().status == 500


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("X-Timeout-Ms", value)
            for value in ("nan", "inf", "0", "-5", "soon", "", "1e999", "0x10", "1_0", "٣")
        ),
        ("X-Priority", "urgent"),
        ("X-Priority", ""),
    ],
)
def test_header_values_that_cannot_be(gateway: RunningGateway, name: str, value: str) -> None:
    raw = value.encode().decode("latin-1")
    response = gateway.post(headers={name: raw})
    assert (response.status, response.code) == (400, "bad_header")


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        ("abc-123", "abc-123"),
        ("with space", "withspace"),
        ("\xe9t\xe9", "t"),
        ("x" * 5000, "x" * 128),
    ],
)
def test_request_ids_are_echoed_when_sane(gateway: RunningGateway, sent: str, echoed: str) -> None:
    assert gateway.post(headers={"X-Request-Id": sent}).headers["x-request-id"] == echoed


def test_an_empty_request_id_is_replaced(gateway: RunningGateway) -> None:
    assert gateway.post(headers={"X-Request-Id": ""}).headers["x-request-id"]


def test_one_id_twice_at_once_confuses_nobody(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda _: None
    with gateway.connect() as one, gateway.connect() as two:
        for client, body in ((one, b"one"), (two, b"two")):
            client.send_request("POST", "/pipelines/digits", body, {"X-Request-Id": "same"})
        items = broker.wait_for_items(2)
        for item in reversed(items):
            broker.answer(item, body_of(item))
        assert one.read_response().body == b"one"
        assert two.read_response().body == b"two"


def test_headers_that_are_no_text_do_no_harm(broker: FakeBroker, gateway: RunningGateway) -> None:
    odd = {"X-Tenant": "\xff\xfe", "Content-Type": "text/\xff", "Accept": "\xff"}
    assert gateway.post(headers=odd).status == 200
    (item,) = broker.wait_for_items(1)
    assert frames.decode_meta(item.meta).headers == {"x-tenant": "\ufffd\ufffd"}


def test_a_killer_body_is_refused_for_a_while(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda item: (
        Failure(ErrorCode.WORKER_CRASHED, "it died") if b"die" in body_of(item) else b"ok"
    )
    for body in (b"die", b"die" * 5000):
        assert gateway.post(body).code == "worker_crashed"
        reached = len(broker.items)
        assert gateway.post(body).code == "worker_crashed"
        assert len(broker.items) == reached
    assert gateway.post(b"live").status == 200


@pytest.mark.parametrize("size_bytes", [1, 50_000, 500_000])
def test_a_twin_that_is_under_way_decides(
    broker: FakeBroker, gateway: RunningGateway, size_bytes: int
) -> None:
    body = b"x" * size_bytes
    crash = Failure(ErrorCode.WORKER_CRASHED, "it died")
    broker.respond = lambda _: None
    with gateway.connect() as client, gateway.connect() as twin:
        for each in (client, twin):
            each.send_request("POST", "/pipelines/digits", body)
        broker.wait_for_items(2)
        first, second = broker.items
        broker.answer(first, crash)
        gateway.wait_for(lambda: gateway.counted(500, version="v1") == 1, "no answer")
        assert gateway.post(body).code == "worker_crashed"
        assert len(broker.items) == 2, "it is blamed, and refused"
        broker.answer(second, b"fine")
        assert {client.read_response().status, twin.read_response().status} == {500, 200}
    broker.respond = lambda _: crash
    for reached in (3, 4):
        assert gateway.post(body).code == "worker_crashed"
        assert len(broker.items) == reached, "it was cleared, and is not blamed again"


def test_what_was_just_answered_is_not_blamed(broker: FakeBroker, gateway: RunningGateway) -> None:
    assert gateway.post(b"usual").status == 200
    broker.respond = lambda _: Failure(ErrorCode.WORKER_CRASHED, "it died")
    for reached in (2, 3):
        assert gateway.post(b"usual").code == "worker_crashed"
        assert len(broker.items) == reached


def test_a_body_that_killed_a_version_which_is_tried_out_is_not_blamed(
    address: str, start_gateway: StartGateway
) -> None:
    """FakeBroker answers as v1."""
    for stable, passed in (("v0", True), ("v1", False)):
        with FakeBroker(address, pipelines=[digits(labels={"stable": stable})]) as broker:
            gateway = start_gateway().wait_until_ready()
            broker.respond = lambda _: Failure(ErrorCode.WORKER_CRASHED, "it died")
            assert gateway.post(b"die").code == "worker_crashed"
            broker.respond = lambda _: b"ok"
            assert (gateway.post(b"die").status == 200) is passed


# ------------------------------------------------------------------ routes


def test_inference_means_the_only_pipeline(gateway: RunningGateway) -> None:
    assert gateway.request("POST", "/inference", b"7").body == b"7"


def test_inference_with_two_pipelines_names_them(address: str, start_gateway: StartGateway) -> None:
    with FakeBroker(address, pipelines=[digits(), digits(name="other")]):
        gateway = start_gateway().wait_until_ready()
        response = gateway.request("POST", "/inference", b"7")
        assert (response.status, response.code) == (404, "not_found")
        assert "digits, other" in response.json()["error"]["message"]


@pytest.mark.parametrize("name", ["nope", "%2F..", "%2e%2e", "%FF", "a%00b", "x" * 5000, "%"])
def test_pipelines_that_do_not_exist(
    broker: FakeBroker, gateway: RunningGateway, name: str
) -> None:
    response = gateway.post(pipeline=name)
    assert (response.status, response.code) == (404, "unknown_pipeline")
    assert gateway.request("GET", f"/pipelines/{name}").code == "unknown_pipeline"
    assert not broker.items
    assert gateway.counted(404, pipeline="unknown") == 1


@pytest.mark.parametrize(
    "target",
    ["/nope", "/pipelines/", "/pipelines/digits/", "/pipelines/digits/versions/", "//"],
)
def test_paths_that_lead_nowhere(gateway: RunningGateway, target: str) -> None:
    for method in ("GET", "POST"):
        assert gateway.request(method, target, b"").status in {404, 405}
    assert gateway.request("GET", "/nope").code == "not_found"


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("OPTIONS", "/pipelines/digits", "GET, HEAD, POST"),
        ("PUT", "/pipelines/digits", "GET, HEAD, POST"),
        ("GET", "/inference", "POST"),
        ("GET", "/pipelines/digits/versions/v1", "POST"),
        ("HEAD", "/inference", "POST"),
        ("POST", "/livez", "GET, HEAD"),
        ("DELETE", "/pipelines", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
    ],
)
def test_methods_that_do_not_fit(
    gateway: RunningGateway, method: str, target: str, allow: str
) -> None:
    response = gateway.request(method, target)
    assert response.status == 405
    assert response.headers["allow"] == allow
    if method != "HEAD":
        assert response.code == "method_not_allowed"


def test_a_name_with_odd_letters_is_served(address: str, start_gateway: StartGateway) -> None:
    with FakeBroker(address, pipelines=[digits(name="zähl er")]):
        gateway = start_gateway().wait_until_ready()
        assert gateway.post(b"5", pipeline="z%C3%A4hl%20er").body == b"5"
        assert gateway.post(b"5", pipeline="%7A%c3%a4hl%20er").body == b"5"


def test_a_query_does_not_hide_the_pipeline(gateway: RunningGateway) -> None:
    assert gateway.request("POST", "/pipelines/digits?a=b", b"5").body == b"5"
    assert gateway.request("POST", "http://test/pipelines/digits", b"5").body == b"5"


@pytest.mark.parametrize("target", ["/livez", "/readyz", "/pipelines", "/pipelines/digits"])
def test_head_is_get_without_a_body(gateway: RunningGateway, target: str) -> None:
    with gateway.connect() as client:
        client.send_request("GET", target)
        got = client.read_response()
        client.send_request("HEAD", target)
        head = client.read_response(head_only=True)
        assert head.status == got.status == 200
        assert head.headers["content-length"] == str(len(got.body))
        client.send_request("GET", "/livez")  # nothing of a body lies in between
        assert client.read_response().status == 200


def test_what_is_served(gateway: RunningGateway) -> None:
    (listed,) = gateway.request("GET", "/pipelines").json()["pipelines"]
    assert listed == gateway.request("GET", "/pipelines/digits").json()
    assert listed["chain"] == ["prepare", "infer"]
    assert listed["versions"] == ["v1"]
    assert listed["ready"] is True
    assert [stage["max_batch_size"] for stage in listed["stages"]] == [8, 32]


# ------------------------------------------------------------------ readiness


def test_readiness_follows_the_catalog(broker: FakeBroker, gateway: RunningGateway) -> None:
    assert gateway.request("GET", "/readyz").status == 200
    sick = digits(name="sick")
    sick.stages[1].reason = "no ready worker"
    broker.pipelines = [digits(), sick]
    broker.announce()
    gateway_sees(gateway, 503)
    response = gateway.request("GET", "/readyz")
    assert response.code == "not_ready"
    assert response.json()["reasons"] == ["sick/infer: no ready worker"]
    assert gateway.request("GET", "/readyz?pipeline=digits").status == 200
    assert gateway.request("GET", "/readyz?pipeline=sick").status == 503
    assert gateway.request("GET", "/readyz?pipeline=nope").status == 404
    assert gateway.request("GET", "/livez").status == 200
    broker.pipelines = []
    broker.announce()
    gateway_sees(gateway, 503, "no pipeline is served")


def test_without_a_broker_it_is_alive_but_not_ready(start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    assert gateway.request("GET", "/livez").status == 200
    response = gateway.request("GET", "/readyz")
    assert (response.status, response.code) == (503, "not_ready")
    assert response.json()["reasons"] == ["no broker answers"]
    assert gateway.request("GET", "/pipelines").code == "not_ready"


def gateway_sees(gateway: RunningGateway, status: int, reason: str = "") -> None:
    """Until readiness is as it should become."""

    def is_so() -> bool:
        response = gateway.request("GET", "/readyz")
        return response.status == status and reason in response.body.decode()

    gateway.wait_for(is_so, f"never {status} {reason}")


# ------------------------------------------------------------------ metrics


def test_metrics_are_of_requests_for_inference_alone(gateway: RunningGateway) -> None:
    gateway.post()
    for target in ("/livez", "/readyz", "/metrics", "/pipelines", "/nope"):
        gateway.request("GET", target)
    samples = gateway.metrics()
    total = [name for name in samples if name.partition("{")[0].endswith("requests_total")]
    assert total == ['millstream_requests_total{pipeline="digits",status="200",version="v1"}']
    assert samples['millstream_gateway_waiting_items{pipeline="digits"}'] == 0
    assert samples['millstream_gateway_held_bytes{pipeline="digits"}'] == 0
    assert samples['millstream_request_duration_seconds_count{pipeline="digits"}'] == 1
    assert samples["millstream_gateway_broker_up"] == 1


def test_clients_cannot_make_up_series(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda item: Answer(
        item.seq, Failure(ErrorCode.UNKNOWN_VERSION, "no such version")
    )
    for number in range(5):
        gateway.post(pipeline=f"made-up-{number}")
        gateway.request("POST", f"/pipelines/digits/versions/made-up-{number}", b"")
    assert not [name for name in gateway.metrics() if "made-up" in name]
    assert gateway.counted(404) == 5
