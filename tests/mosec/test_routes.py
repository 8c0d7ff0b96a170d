"""What clients of MOSEC send, and what they are answered."""

import concurrent.futures
import gzip
import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no types
import pytest

from gateway.inflate import zstd_module
from tests.mosec.conftest import MOST_BYTES
from tests.system.client import HttpAnswer
from tests.system.deployment import Deployment


def post(mill: Deployment, path: str, value: Any) -> HttpAnswer:
    """As JSON, by a connection of its own."""
    with mill.client() as client:
        return client.post(path, json.dumps(value).encode())


def together(mill: Deployment, path: str, values: list[Any]) -> list[HttpAnswer]:
    """All at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(values)) as pool:
        return list(pool.map(lambda value: post(mill, path, value), values))


def test_a_result_comes_as_json_whatever_the_request_calls_itself(mill: Deployment) -> None:
    with mill.client() as client:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = client.post("/inference", b'{"x": 4}', form)
    assert (answer.status, answer.json()["half"]) == (200, 2)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["server"].startswith("mosec/")


def test_two_routes_of_one_chain_and_a_query_lead_to_the_same(mill: Deployment) -> None:
    assert post(mill, "/v2/halve", {"x": 6}).json()["half"] == 3
    assert post(mill, "/inference?a=b", {"x": 8}).json()["half"] == 4


@pytest.mark.parametrize(
    ("item", "status", "text"),
    [
        ({"x": 3}, 422, "request validation error: 3 is odd"),
        ({"server": 1}, 500, "internal error: out of - order"),
        ({"client": 1}, 400, "bad request: bad request"),
        ({"boom": 1}, 500, "inference internal error"),
        ({}, 500, "inference internal error"),
    ],
)
def test_errors_are_told_in_mosecs_words(
    mill: Deployment, item: Any, status: int, text: str
) -> None:
    answer = post(mill, "/inference", item)
    assert (answer.status, answer.body.decode()) == (status, text)
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_body_that_is_no_json_is_400_and_an_empty_one_too(mill: Deployment) -> None:
    with mill.client() as client:
        broken, empty = client.post("/inference", b"{"), client.post("/inference")
    assert (broken.status, broken.body[:16]) == (400, b"decoding error: ")
    assert (empty.status, empty.body) == (400, b"no data provided")


def test_one_bad_item_fails_alone_among_those_of_its_batch(mill: Deployment) -> None:
    good = {"x": 2, "slow": True}  # the batch behind it is a full one
    answers = together(mill, "/inference", [good, *({"x": n} for n in (4, 5, 6, 8, 10, 12, 14))])
    assert [answer.status for answer in answers] == [200, 200, 422, 200, 200, 200, 200, 200]
    assert max(answer.json()["together"] for answer in answers if answer.status == 200) > 1


def test_a_worker_knows_its_number_and_only_its_own_environment(mill: Deployment) -> None:
    seen: dict[int, Any] = {}
    deadline = time.monotonic() + 30
    while len(seen) < 2 and time.monotonic() < deadline:
        for answer in together(mill, "/who", [{}] * 6):
            told = answer.json()
            seen[told["known"][0]] = told
    assert set(seen) == {1, 2}
    assert [seen[number]["color"] for number in (1, 2)] == ["red", "blue"]
    assert [seen[number]["devices"] for number in (1, 2)] == ["7", None]
    for told in seen.values():
        assert told["known"] == told["now"]
        assert re.fullmatch(r"Who_\d+", told["now"][1])
        assert told["greeting"] == "hello"  # the script's own option, as the worker reads it


def test_a_forward_that_takes_too_long_is_stopped_and_may_clean_up(mill: Deployment) -> None:
    answer = post(mill, "/sleep", {"s": 20})
    assert answer.status == 408
    assert answer.body == b"mosec timeout error: `forward` timeout after 0.2s"
    mill.roles[0].wait_for_output("cleaned up")
    assert post(mill, "/sleep", {"s": 0}).status == 200


def test_a_worker_that_dies_is_replaced_and_its_item_run_again(
    mill: Deployment, tmp_path: Path
) -> None:
    answer = post(mill, "/die", {"mark": str(tmp_path / "mark")})
    assert answer.status == 408 or answer.json() == {"attempt": "second"}  # on a slow machine

    def lives() -> bool:
        return post(mill, "/die", {"mark": str(tmp_path / "mark")}).status == 200

    deadline = time.monotonic() + 30
    while not lives():
        assert time.monotonic() < deadline


def test_arrays_go_from_stage_to_stage_and_may_be_written_to(mill: Deployment) -> None:
    assert post(mill, "/wrap", {"n": 3}).json() == {"x": [1, 2, 3], "zeros": [5.0] * 3}
    large = post(mill, "/wrap", {"n": 100_000}).json()["x"]
    assert (large[0], large[-1]) == (1, 100_000)


def test_routes_share_a_stage_and_end_in_different_types(mill: Deployment) -> None:
    with mill.client() as client:
        plain = client.post("/length", b"12345")
        packed = client.post("/v1/length", msgpack.packb({"name": "n", "data": b"1234"}))
        wrong = client.post("/v1/length", msgpack.packb({"data": b"1234"}))
    assert (plain.json(), plain.headers["content-type"]) == ({"length": 5}, "application/json")
    assert packed.headers["content-type"] == "application/msgpack"
    assert msgpack.unpackb(packed.body) == {"length": 4}
    assert wrong.status == 422
    assert wrong.body.startswith(b"request validation error: Object missing required field")


def test_bodies_and_answers_may_be_compressed(mill: Deployment) -> None:
    body = json.dumps({"text": "a", "x": 2}).encode()
    zstd = zstd_module()
    counted = throughput(mill, "/wrap")
    with mill.client() as client:
        for name, pack, unpack in (
            ("gzip", gzip.compress, gzip.decompress),
            ("zstd", zstd.compress, zstd.decompress),
        ):
            headers = {"Content-Encoding": name, "Accept-Encoding": name}
            short = client.post("/inference", pack(body), headers)
            assert (short.status, "content-encoding" in short.headers) == (200, False)
            long = client.post("/wrap", pack(b'{"n": 1000}'), headers)
            assert long.headers["content-encoding"] == name
            assert json.loads(unpack(long.body))["x"][-1] == 1000
    assert throughput(mill, "/wrap") == counted + 2, "each once, though it is settled in two steps"


def test_a_body_that_is_too_large_is_413(mill: Deployment) -> None:
    answer = post(mill, "/inference", {"x": 2, "padding": "a" * MOST_BYTES})
    assert (answer.status, answer.body) == (413, b"request body is too large")


def events(mill: Deployment, value: Any) -> list[str]:
    """The events of a stream, as text."""
    answer = post(mill, "/spell", value)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    return answer.body.decode().removesuffix("\n\n").split("\n\n")


def test_events_come_as_text_with_a_field_for_each_line(mill: Deployment) -> None:
    assert events(mill, {"text": "ab"}) == ["data: a\ndata: of ab", "data: b\ndata: of ab"]


def test_clients_of_one_batch_get_their_own_events(mill: Deployment) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        texts = ["one", "two", "three", "four"]
        found = list(pool.map(lambda text: events(mill, {"text": text}), texts))
    assert found == [[f"data: {letter}\ndata: of {text}" for letter in text] for text in texts]


def test_what_fails_in_a_stream_is_told_by_an_event(mill: Deployment) -> None:
    start = "event: error\ndata: SSE inference error: "
    assert events(mill, {}) == [
        f"{start}422: Unprocessable Content: request validation error: text is required"
    ]
    assert events(mill, {"text": "a", "fails": 1}) == [
        "data: a\ndata: of a",
        f"{start}500: Internal Server Error: internal error: lost my voice",
    ]


def test_a_client_that_goes_away_in_a_stream_frees_the_worker(mill: Deployment) -> None:
    body = json.dumps({"text": "x" * 20_000}).encode()
    head = f"POST /spell HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", mill.port), 20.0) as client:
        client.sendall(head + body)
        assert b"data: x" in client.recv(4096) + client.recv(4096)
    assert events(mill, {"text": "a"}) == ["data: a\ndata: of a"]


def test_the_pages_of_mosec_are_there_beside_our_own(mill: Deployment) -> None:
    with mill.client() as client:
        index, wrong = client.get("/"), client.get("/inference")
        swagger, slash = client.get("/openapi/swagger/"), client.get("/openapi/swagger")
        start = client.get("/openapi/swagger/start.js")
        ours = client.get("/pipelines/inference")
    assert (index.status, index.body) == (200, b"MOSEC service")
    assert index.headers["server"].startswith("mosec/")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert (swagger.status, slash.headers["location"]) == (200, "/openapi/swagger/")
    assert b"../metadata.json" in start.body
    assert ours.json()["chain"][0].startswith("Halve_")


def test_the_openapi_document_has_what_workers_are_annotated_with(mill: Deployment) -> None:
    with mill.client() as client:
        document = client.get("/openapi/metadata.json").json()
    typed = document["paths"]["/v1/length"]["post"]
    assert typed["requestBody"]["content"] == {
        "application/msgpack": {"schema": {"$ref": "#/components/schemas/Order"}}
    }
    assert document["components"]["schemas"]["Order"]["required"] == ["name"]
    untyped = document["paths"]["/inference"]["post"]
    assert "requestBody" not in untyped
    assert "content" not in untyped["responses"]["200"]
    assert {"400", "408", "422", "429", "500"} <= set(untyped["responses"])


def figures(mill: Deployment) -> dict[str, str]:
    """The lines of the metrics, by what stands before the value."""
    with mill.client() as client:
        text = client.get("/metrics").body.decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def throughput(mill: Deployment, endpoint: str) -> int:
    """How many requests there were answered with a result."""
    return int(figures(mill).get(f'my_throughput_total{{code="200",endpoint="{endpoint}"}}', 0))


def test_metrics_bear_mosecs_names_beside_ours(mill: Deployment) -> None:
    post(mill, "/v2/halve", {"x": 2})
    lines = figures(mill)
    assert throughput(mill, "/v2/halve") >= 1
    total = 'my_process_duration_second_count{stage="total",connection="total"}'
    assert int(lines[total]) >= 1
    sizes = [key for key in lines if key.startswith("my_batch_size_count")]
    assert {key.split('"')[1].split("_")[0] for key in sizes} == {
        *("Halve", "Length", "Spell"),
    }
    assert lines["my_remaining_task"] == "0"
    assert any(key.startswith("millstream_requests_total") for key in lines)
