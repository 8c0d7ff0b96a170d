"""Requests that are not what the protocol has: each is refused, and the fault named."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.system.client import Client, HttpAnswer

pytestmark = pytest.mark.system

HEADER = "Inference-Header-Content-Length"
RAW = bytes.fromhex("0000803f000000400000404000008040")
TEXTS = bytes.fromhex("0200000061620000000002000000c3a9")


def tensor(**changes: Any) -> dict[str, Any]:
    """The input of `pairs`, in binary, but for what is changed; None removes."""
    whole = {
        "name": "x",
        "shape": [2, 2],
        "datatype": "FP32",
        "parameters": {"binary_data_size": 16},
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def infer(
    client: Client,
    request: Any,
    raw: bytes = b"",
    *,
    model: str = "pairs",
    header: str | None = "right",
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """The answer; `header` is the length of the JSON unless it says otherwise."""
    text = request if isinstance(request, bytes) else json.dumps(request).encode()
    sent = dict(headers or {})
    if header is not None:
        sent[HEADER] = str(len(text)) if header == "right" else header
    return client.post(f"/v2/models/{model}/infer", text + raw, sent)


def assert_refused(answer: HttpAnswer, *words: str, status: int = 400) -> None:
    assert answer.status == status, answer.body
    document = answer.json()
    assert set(document) == {"error"}
    for word in words:
        assert word in document["error"]


def test_the_valid_one(client: Client) -> None:
    request = {"inputs": [tensor()]}
    answer = infer(client, request, RAW)
    assert answer.status == 200
    assert answer.json() == {
        "model_name": "pairs",
        "model_version": "1",
        "outputs": [
            {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1.0, 2.0, 3.0, 4.0]}
        ],
    }
    binary = infer(client, {**request, "parameters": {"binary_data_output": True}}, RAW)
    length = int(binary.headers["inference-header-content-length"])
    assert json.loads(binary.body[:length])["outputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": 16}}
    ]
    assert binary.body[length:] == RAW


LENGTH = len(json.dumps({"inputs": [tensor()]}))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "not as the protocol"),
        (str(LENGTH - 1), "not as the protocol"),
        (str(LENGTH + 1), "not as the protocol"),
        ("100000", "the body has"),
        ("-1", HEADER),
        ("abc", HEADER),
        ("", HEADER),
        ("9" * 30, HEADER),
        ("0", "FP32 of shape"),
    ],
)
def test_lengths_of_the_json(client: Client, header: str | None, words: str) -> None:
    # Behind 16 bytes of raw values; the body as a whole is no tensor of two columns.
    raw = RAW if header != "0" or (LENGTH + 16) % 8 else RAW + b"1234"
    assert_refused(infer(client, {"inputs": [tensor()]}, raw, header=header), words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"binary_data_size": 12}}, "is of 16 bytes"),
        ({"parameters": {"binary_data_size": 20}}, "16 bytes are left"),
        ({"parameters": {"binary_data_size": -4}}, "binary_data_size must be"),
        ({"parameters": {"binary_data_size": "16"}}, "binary_data_size must be"),
        ({"parameters": {"binary_data_size": True}}, "binary_data_size must be"),
        ({"parameters": {"binary_data_size": 2**63}}, "bytes are left"),
        ({"parameters": {}}, "neither data nor"),
        ({"data": [1, 2, 3, 4]}, "both data and"),
        ({"parameters": {"shared_memory_region": "r"}}, "shared_memory_region"),
        ({"shape": [4]}, "must be of shape"),
        ({"shape": [-2, 2]}, "must be of shape"),
        ({"shape": [2.5, 2]}, "$.inputs[0].shape[0]"),
        ({"shape": [2**62, 2]}, "beyond all bounds"),
        ({"shape": [2**70, 2]}, "shape"),
        ({"shape": [1] * 1000}, "1000 axes"),
        ({"shape": None}, "shape"),
        ({"datatype": "FP33"}, "unknown datatype 'FP33'"),
        ({"datatype": "INT32"}, "its datatype is FP32"),
        ({"name": "y"}, "there is no input 'y'"),
        ({"name": 1}, "$.inputs[0].name"),
    ],
    ids=lambda given: repr(given)[:40],
)
def test_inputs(client: Client, changes: dict[str, Any], words: str) -> None:
    assert_refused(infer(client, {"inputs": [tensor(**changes)]}, RAW), words)


@pytest.mark.parametrize(
    ("shape", "data", "words"),
    [
        ([2, 2], [1, 2, 3], "expected 4 elements, got 3"),
        ([2, 2], [[1, 2], [3]], "$.inputs[0].data[1]"),
        ([2, 2], [[1, 2], 3], "$.inputs[0].data[1]"),
        ([2, 2], [[1, 2], [3, "4"]], "$.inputs[0].data[1][1]"),
        ([2, 2], [1, 2, 3, None], "got null"),
        ([2, 2], [1, 2, 3, True], "got bool"),
        ([2, 2], [1, 2, 3, 1e300], "beyond the range of FP32"),
        ([2, 2], "text", "expected an array"),
        ([0, 2], [1], "expected 0 elements"),
    ],
)
def test_data_of_json(client: Client, shape: list[int], data: Any, words: str) -> None:
    request = {"inputs": [tensor(shape=shape, data=data, parameters=None)]}
    assert_refused(infer(client, request, header=None), words)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (b" ", "not as the protocol"),
        (b"[]", "Expected `object`"),
        (b"{}", "inputs"),
        (b'{"inputs": [' + b"[" * 100_000, "not as the protocol"),
        ({"inputs": []}, "the input 'x' is missing"),
        ({"inputs": [tensor(), tensor()]}, "given twice"),
        ({"inputs": [tensor()], "id": 1}, "$.id"),
        ({"inputs": [tensor()], "outputs": [{"name": "potato"}]}, "no output 'potato'"),
        ({"inputs": [tensor()], "outputs": [{"name": "x"}, {"name": "potato"}]}, "potato"),
        ({"inputs": [tensor()], "outputs": [{"name": "x"}] * 2}, "asked for twice"),
        ({"inputs": [tensor()], "outputs": ["x"]}, "$.outputs[0]"),
        ({"inputs": [tensor()], "parameters": {"timeout": -1}}, "timeout"),
        ({"inputs": [tensor()], "parameters": {"priority": "high"}}, "priority"),
        ({"inputs": [tensor()], "parameters": {"sequence_id": 7}}, "sequence_id"),
        ({"inputs": [tensor()], "parameters": {"binary_data_output": 1}}, "binary_data_output"),
        (
            {"inputs": [tensor()], "outputs": [{"name": "x", "parameters": {"classification": 1}}]},
            "classification",
        ),
    ],
    ids=lambda given: repr(given)[:60],
)
def test_requests(client: Client, request_: Any, words: str) -> None:
    raw = RAW if not isinstance(request_, bytes) and len(request_["inputs"]) == 1 else b""
    if not isinstance(request_, bytes) and len(request_["inputs"]) == 2:
        raw = RAW * 2
    assert_refused(infer(client, request_, raw), words)


def test_bytes_that_belong_to_nobody(client: Client) -> None:
    assert_refused(infer(client, {"inputs": [tensor()]}, RAW + b"\0"), "1 bytes of the body")
    assert_refused(infer(client, {"inputs": [tensor()]}), "0 bytes are left")
    two = {"inputs": [tensor(), tensor(name="y")]}
    assert_refused(infer(client, two, RAW), "there is no input 'y'")


def texts(count: int, size_bytes: int = 16) -> dict[str, Any]:
    parameters = {"binary_data_size": size_bytes}
    inputs = [{"name": "text", "shape": [count], "datatype": "BYTES", "parameters": parameters}]
    return {"inputs": inputs}


@pytest.mark.parametrize(
    ("count", "raw", "words"),
    [
        (3, b"\xff\xff\xff\xff" + TEXTS[4:], "4294967295 bytes"),
        (3, TEXTS[:-1], "2 bytes, where 1 are left"),
        (3, TEXTS + b"\0", "is cut off"),
        (2, TEXTS, "is of 2 elements, not 3"),
        (4, TEXTS, "is of 4 elements, not 3"),
        (5, TEXTS, "do not fit"),
        (2**40, TEXTS, "do not fit"),
    ],
)
def test_texts(client: Client, count: int, raw: bytes, words: str) -> None:
    assert_refused(infer(client, texts(count, len(raw)), raw, model="texts"), words)


def test_texts_come_back(client: Client) -> None:
    answer = infer(client, texts(3), TEXTS, model="texts")
    assert answer.json()["outputs"][0]["data"] == ["ab", "", "é"]
    as_json = {"inputs": [{"name": "text", "shape": [3], "datatype": "BYTES"}]}
    as_json["inputs"][0]["data"] = ["ab", "", "é"]
    answer = infer(client, as_json, model="texts", header=None)
    assert answer.json()["outputs"][0]["data"] == ["ab", "", "é"]
    as_json["inputs"][0]["data"] = ["ab", {"b64": "YQ=="}, ""]
    assert_refused(infer(client, as_json, model="texts"), "got object", "data[1]")


def test_text_that_is_none_is_not_mangled(client: Client) -> None:
    raw = b"\x01\0\0\0\xff"
    assert_refused(infer(client, texts(1, 5), raw, model="texts"), "no UTF-8", "binary_data")
    wanted = {"outputs": [{"name": "text", "parameters": {"binary_data": True}}]}
    answer = infer(client, {**texts(1, 5), **wanted}, raw, model="texts")
    assert answer.body.endswith(raw)


def test_raw_requests(client: Client) -> None:
    answer = client.post("/v2/models/pairs/infer", RAW, {HEADER: "0"})
    length = int(answer.headers["inference-header-content-length"])
    assert json.loads(answer.body[:length])["outputs"][0]["shape"] == [2, 2]
    assert answer.body[length:] == RAW
    answer = client.post("/v2/models/texts/infer", b"one text", {HEADER: "0"})
    assert answer.body.endswith(b"\x08\0\0\0one text")
    assert_refused(client.post("/v2/models/pairs/infer", RAW[1:], {HEADER: "0"}), "no FP32")
    assert_refused(client.post("/v2/models/all/infer", RAW, {HEADER: "0"}), "one input")


@pytest.mark.parametrize(
    ("model", "status", "words"),
    [
        ("nobody", 404, "nobody"),
        ("a%2F..", 404, "a/.."),
        ("pairs/versions/9", 404, "version"),
        ("undeclared", 400, "declares no tensors"),
        ("objects", 400, "declares no tensors"),
    ],
)
def test_models(client: Client, model: str, status: int, words: str) -> None:
    assert_refused(infer(client, {"inputs": [tensor()]}, RAW, model=model), words, status=status)


def test_ids(client: Client) -> None:
    for name in ("", "a", "é" * 10_000):
        answer = infer(client, {"id": name, "inputs": [tensor()]}, RAW)
        assert answer.json()["id"] == name


def test_deadline(client: Client) -> None:
    request = {"inputs": [tensor()], "parameters": {"timeout": 1}}
    assert_refused(infer(client, request, RAW), "deadline", status=504)


def test_pages_of_errors(client: Client) -> None:
    assert_refused(client.get("/v2/nowhere"), "nothing at this path", status=404)
    assert_refused(client.get("/v2/models/pairs/infer"), "POST", status=405)
    assert_refused(client.post("/v2/repository/models/pairs/load"), "none is loaded")
