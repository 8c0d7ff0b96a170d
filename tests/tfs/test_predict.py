"""What clients of TensorFlow Serving send, and are answered."""

import gzip
import json
import math
from typing import Any

import pytest

from tests.system.client import Client
from tests.system.deployment import Deployment

pytestmark = pytest.mark.system


def predict(client: Client, model: str, body: Any, path: str = "") -> Any:
    answer = client.post_json(f"/v1/models/{model}{path}:predict", body)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


@pytest.mark.parametrize(
    ("model", "body", "expected"),
    [
        ("half", {"instances": [1.0, 2.0, 5]}, {"predictions": [2.5, 3.0, 4.5]}),
        ("half", {"instances": [{"x": 1.0}, {"x": 2}]}, {"predictions": [2.5, 3.0]}),
        ("half", {"inputs": [1.0, 2.0]}, {"outputs": [2.5, 3.0]}),
        ("half", {"inputs": {"x": [1.0]}}, {"outputs": [2.5]}),
        ("half", {"inputs": []}, {"outputs": []}),
        ("half", {"signature_name": "serving_default", "inputs": [2]}, {"outputs": [3.0]}),
        ("half", {"signature_name": "", "inputs": [2]}, {"outputs": [3.0]}),
        ("half", {"inputs": [2], "parameters": {"deep": [[[]]]}}, {"outputs": [3.0]}),
        ("texts", {"instances": ["a", {"b64": "Yg"}, "é"]}, {"predictions": ["a", "b", "é"]}),
        ("texts", {"inputs": {"text": [{"b64": "w6k="}]}}, {"outputs": ["é"]}),
        (
            "images",
            {"instances": [{"b64": "/wA="}, "ab"]},
            {
                "predictions": [
                    {"image_bytes": {"b64": "/wA="}, "lengths": 2, "total": 2},
                    {"image_bytes": {"b64": "YWI="}, "lengths": 2, "total": 2},
                ]
            },
        ),
        (
            "images",
            {"inputs": [{"b64": "/w A\n="}] * 4},
            {
                "outputs": {
                    "image_bytes": [{"b64": "/wA="}] * 4,
                    "lengths": [2] * 4,
                    "total": [8],
                }
            },
        ),
        (
            "flowers",
            {"instances": [{"size": [1, 2], "kind": "a"}, {"kind": "b", "size": [3, 4]}]},
            {
                "predictions": [
                    {"scores": [0.5, 1.0], "names": ["a", "a?"], "area": [2.0]},
                    {"scores": [1.5, 2.0], "names": ["b", "b?"], "area": [12.0]},
                ]
            },
        ),
    ],
)
def test_rows_and_columns(client: Client, model: str, body: Any, expected: Any) -> None:
    assert predict(client, model, body) == expected


def test_numbers_that_are_none(client: Client) -> None:
    for field, answered in (("instances", "predictions"), ("inputs", "outputs")):
        body = b'{"%s": [NaN, Infinity, 1.0]}' % field.encode()
        answer = client.post("/v1/models/half:predict", body)
        assert answer.body == b'{"%s":[NaN,Infinity,2.5]}' % answered.encode()
    answer = client.post("/v1/models/vectors:predict", json.dumps(vector(-math.inf)).encode())
    assert b'"FP16":-Infinity' in answer.body
    assert b'"BYTES":"NaN"' in answer.body
    assert answer.json() == {"predictions": vector(-math.inf)["instances"]}


def vector(number: float) -> dict[str, Any]:
    """One row of `vectors`, with this float."""
    row: dict[str, Any] = dict.fromkeys(("FP16", "BF16", "FP32", "FP64"), number)
    integers = [f"{sign}INT{bits}" for sign in ("U", "") for bits in (8, 16, 32, 64)]
    row |= {**dict.fromkeys(integers, 1), "BOOL": True, "BYTES": "NaN"}
    return {"instances": [{**row, "any_bytes": {"b64": "/w=="}}]}


def test_what_a_row_form_cannot_say(client: Client) -> None:
    answer = client.post_json("/v1/models/images:predict", {"instances": ["a"] * 4})
    assert (answer.status, list(answer.json())) == (400, ["error"])
    assert "'total': 1" in answer.json()["error"]


def test_bytes_that_are_no_text_are_not_mangled(client: Client) -> None:
    answer = client.post_json("/v1/models/texts:predict", {"instances": [{"b64": "/w=="}]})
    assert answer.status == 400
    assert "_bytes" in answer.json()["error"]


def test_large_ones(client: Client) -> None:
    """They are read and written in a thread."""
    rows = [[[float(n), n / 3] for n in range(500)] for _ in range(20)]
    empty: dict[str, list[Any]] = {name: [] for name in vector(0.0)["instances"][0]}
    body = {"inputs": {**empty, "FP64": rows}}
    assert predict(client, "cubes", body) == {"outputs": {**empty, "FP64": rows}}
    rows[-1][-1][-1] = math.nan
    outputs = predict(client, "cubes", body)["outputs"]["FP64"]
    assert math.isnan(outputs[-1][-1].pop())
    rows[-1][-1].pop()
    assert outputs == rows


def test_compression_both_ways(client: Client) -> None:
    body = gzip.compress(json.dumps({"instances": [1] * 5000}).encode())
    headers = {"Content-Encoding": "gzip", "Accept-Encoding": "deflate, gzip"}
    answer = client.post("/v1/models/half:predict", body, headers)
    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.body)) == {"predictions": [2.5] * 5000}
    plain = client.post("/v1/models/half:predict", body, {"Content-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == {"predictions": [2.5] * 5000}


def test_it_is_a_request_like_any_other(mill: Deployment, client: Client) -> None:
    headers = {"X-Request-Id": "mine", "X-Timeout-Ms": "20000", "X-Priority": "high"}
    counted = 'millstream_requests_total{pipeline="half",status="200",version="1"}'
    before = metric(client, counted)
    answer = client.post("/v1/models/half:predict", b'{"instances": [1]}', headers)
    assert answer.headers["x-request-id"] == "mine"
    assert answer.headers["x-model-version"] == "1"
    assert "half-run" in answer.headers["server-timing"]
    assert metric(client, counted) == before + 1
    late = client.post("/v1/models/half:predict", b'{"instances": [1]}', {"X-Timeout-Ms": "0.001"})
    assert late.status in (503, 504)
    wrong = client.post("/v1/models/half:predict", b'{"instances": [1]}', {"X-Priority": "vip"})
    assert (wrong.status, list(wrong.json())) == (400, ["error"])
    with mill.client() as other:
        rejected = other.post_json("/v1/models/half:predict", {"instances": [-1.0]})
    assert (rejected.status, rejected.json()) == (422, {"error": "negative"})


def metric(client: Client, name: str) -> float:
    lines = client.get("/metrics").body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@pytest.mark.parametrize("path", ["/versions/1", "/labels/stable"])
def test_versions_and_labels(client: Client, path: str) -> None:
    assert predict(client, "half", {"instances": [1]}, path) == {"predictions": [2.5]}


EXAMPLES = [{"size": [1, 2], "kind": ["a"]}, {"size": [3, 4], "kind": "b"}]


@pytest.mark.parametrize(
    ("verb", "body", "results"),
    [
        ("classify", {}, [[["a", 0.5], ["a?", 1.0]], [["b", 1.5], ["b?", 2.0]]]),
        (
            "classify",
            {"signature_name": "fixed"},
            [[["rose", 0.5], ["tulip", 1.0]], [["rose", 1.5], ["tulip", 2.0]]],
        ),
        ("classify", {"signature_name": "bare"}, [[["", 0.5], ["", 1.0]], [["", 1.5], ["", 2.0]]]),
        ("regress", {"signature_name": "serving_default"}, [2.0, 12.0]),
        ("regress", {"signature_name": "area"}, [2.0, 12.0]),
        (
            "classify",
            {"examples": [{"size": [1, 2]}], "context": {"kind": {"b64": "YQ=="}}},
            [[["a", 0.5], ["a?", 1.0]]],
        ),
    ],
)
def test_classes_and_values(client: Client, verb: str, body: Any, results: Any) -> None:
    answer = client.post_json(f"/v1/models/flowers:{verb}", {"examples": EXAMPLES, **body})
    assert (answer.status, answer.json()) == (200, {"results": results})


def test_values_that_are_none(client: Client) -> None:
    body = b'{"examples": [{"size": [NaN, 2.0], "kind": "a"}]}'
    assert client.post("/v1/models/flowers:regress", body).body == b'{"results":[NaN]}'
    answer = client.post("/v1/models/flowers:classify", body)
    assert answer.body == b'{"results":[[["a",NaN],["a?",1.0]]]}'
