"""Pipelines that declare what they take, over the native routes."""

import json
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.system.client import Client

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("pipeline", "body", "result"),
    [
        ("pairs", {"x": [[1, 2], [3, 4]]}, {"x": [[1.0, 2.0], [3.0, 4.0]]}),
        ("pairs", {"x": [1, 2, 3, 4]}, {"x": [[1.0, 2.0], [3.0, 4.0]]}),
        ("pairs", {"x": []}, {"x": []}),
        ("sum", {"image": [[[1, 2], [3, 4]]]}, [10.0]),
        ("objects", {"x": 1.5}, {"x": 2.5, "y": 1}),
    ],
)
def test_what_fits(client: Client, pipeline: str, body: Any, result: Any) -> None:
    answer = client.post_json(f"/pipelines/{pipeline}", body)
    assert (answer.status, answer.json()) == (200, result)
    packed = client.post(
        f"/pipelines/{pipeline}", msgpack.packb(body), {"Content-Type": "application/msgpack"}
    )
    assert (packed.status, packed.json()) == (200, result)


@pytest.mark.parametrize(
    ("pipeline", "body", "words"),
    [
        ("pairs", {"x": [[1, 2], [3]]}, "`$.x[1]`"),
        ("pairs", {"x": [[1, 2], [3, "4"]]}, "`$.x[1][1]`"),
        ("pairs", {"x": [1, 2, 3]}, "a multiple of 2"),
        ("pairs", {"x": 1}, "`$.x`"),
        ("pairs", {}, "'x' is missing"),
        ("pairs", {"x": [], "y": []}, "no input 'y'"),
        ("pairs", [], "`$`"),
        ("objects", {"x": "1"}, "`$.x`"),
        ("objects", {"x": 1, "y": -1}, "`$.y`"),
    ],
)
def test_what_does_not_fit(client: Client, pipeline: str, body: Any, words: str) -> None:
    answer = client.post_json(f"/pipelines/{pipeline}", body)
    assert (answer.status, answer.code) == (422, "rejected")
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize("pipeline", ["pairs", "objects"])
def test_what_is_no_json(client: Client, pipeline: str) -> None:
    path = f"/pipelines/{pipeline}"
    assert client.post(path, b"{").code == "bad_body"
    assert client.post(path, b"\xdd\xff\xff\xff\xff", msgpack_type()).code == "bad_body"
    assert client.post(path, b'{"x": 1, "z": ' + b"[" * 10_000).code == "bad_body"
    assert client.post(path, b"x", {"Content-Type": "text/plain"}).code == "unsupported_type"


def msgpack_type() -> dict[str, str]:
    return {"Content-Type": "application/msgpack"}


def test_what_is_declared_is_shown(client: Client) -> None:
    pipelines = {each["name"]: each for each in client.get("/pipelines").json()["pipelines"]}
    pairs = [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert (pipelines["pairs"]["inputs"], pipelines["pairs"]["outputs"]) == (pairs, pairs)
    assert pipelines["undeclared"]["inputs"] is None
    schema = pipelines["objects"]["inputs"]
    assert schema["$defs"]["Point"]["properties"]["x"] == {"type": "number"}


def test_the_inner_form_of_tensors_is_checked_like_any_body(client: Client) -> None:
    headers = {"Content-Type": "application/vnd.millstream.tensors"}
    for body in (
        b"",
        json.dumps([]).encode(),
        msgpack.packb([["x", "FP32", [1, 2], None]]),
        msgpack.packb([["x", "FP32", [1, 2], b"123"]]),
        msgpack.packb([["x", "FP33", [1, 2], b"12345678"]]),
        msgpack.packb([["x", "FP32", [-1, 2], b""]]),
        b"\xdd\xff\xff\xff\xff",
    ):
        assert client.post("/pipelines/pairs", body, headers).code == "bad_body"
