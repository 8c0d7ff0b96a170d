"""Requests that are not what these protocols have: each is refused, and the fault named."""

import json
from typing import Any

import pytest

from tests.system.client import Client, HttpAnswer

pytestmark = pytest.mark.system


def assert_refused(answer: HttpAnswer, *words: str, status: int = 400) -> None:
    assert answer.status == status, answer.body
    document = answer.json()
    assert set(document) == {"error"}
    for word in words:
        assert word in document["error"]


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("model", "body", "words"),
    [
        ("half", b"", "not as the protocol"),
        ("half", b"nonsense", "not as the protocol"),
        ("half", b"[]", "Expected `object`"),
        ("half", b"{}", "either `instances` or `inputs`"),
        ("half", {"instances": [1], "inputs": [1]}, "one of the two"),
        ("half", {"instances": []}, "`$.instances`"),
        ("half", {"instances": 1}, "expected an array, got int - at `$.instances`"),
        ("half", {"instances": None}, "got null - at `$.instances`"),
        ("half", {"inputs": 1}, "expected an array, got int - at `$.inputs`"),
        ("half", {"inputs": None}, "got null - at `$.inputs`"),
        ("half", {"signature_name": 1, "inputs": [1]}, "`$.signature_name`"),
        ("half", {"signature_name": None, "inputs": [1]}, "`$.signature_name`"),
        ("half", {"signature_name": "x", "inputs": [1]}, "no signature 'x'"),
        ("half", {"instances": [1, "2"]}, "expected FP32, got text - at `$.instances[1]`"),
        ("half", {"instances": [1, None]}, "got null - at `$.instances[1]`"),
        ("half", {"instances": [1, True]}, "got bool - at `$.instances[1]`"),
        ("half", {"instances": [[1]]}, "got array - at `$.instances[0]`"),
        ("half", {"instances": [1, {"x": 1}]}, "got object - at `$.instances[1]`"),
        ("half", {"instances": [{"x": 1}, 1]}, "expected an object, got int - at `$.instances[1]`"),
        ("half", {"instances": [{"x": 1}, {"y": 1}]}, "'x' is missing - at `$.instances[1]`"),
        ("half", {"instances": [{"x": 1, "y": 1}]}, "no input 'y'; declared: x - at `$.instances["),
        ("half", {"instances": [{"x": 1}, {"x": [1]}]}, "got array - at `$.instances[1].x`"),
        ("half", {"instances": [{"b64": "YQ=="}]}, "got object - at `$.instances[0]`"),
        ("half", {"instances": [1e300]}, "beyond the range of FP32 - at `$.instances[0]`"),
        ("half", {"instances": [10**400]}, "beyond the range of FP32 - at `$.instances[0]`"),
        ("half", b'{"instances": [%s]}' % (b"9" * 5000), "not as the protocol"),
        ("half", {"inputs": {"y": [1]}}, "'x' is missing - at `$.inputs`"),
        ("half", {"inputs": {"x": [1], "y": []}}, "no input 'y'"),
        ("half", {"inputs": {"x": 1}}, "got int - at `$.inputs.x`"),
        ("half", {"inputs": {"x": [1, "2"]}}, "got text - at `$.inputs.x[1]`"),
        ("half", {"inputs": {"b64": "YQ=="}}, "got object - at `$.inputs`"),
        ("half", b'{"instances": [nan]}', "not as the protocol"),
        ("half", b'{"instances": [-NaN]}', "not as the protocol"),
        ("half", b'{"instances": [NaN, 1', "not as the protocol"),
        ("half", b'{"instances": [NaN, 1e999]}', "beyond the range"),
        ("half", b'{"instances": [NaN, %s]}' % (b"9" * 400), "beyond the range of FP32"),
        ("half", b'{"instances": [NaN, %s]}' % (b"9" * 5000), "not as the protocol"),
        ("half", b'{"instances": [NaN, "\xff"]}', "not as the protocol"),
        ("half", b'{"signature_name": NaN, "inputs": [1]}', "not as the protocol"),
        ("half", b'{"inputs": ' + DEEP, "not as the protocol"),
        ("half", b'{"inputs": [NaN, ' + DEEP, "not as the protocol"),
        ("half", b'{"inputs": [1], "other": ' + DEEP, "not as the protocol"),
        ("half", b'{"inputs": ' + b"[" * 200 + b"]" * 200 + b"}", "got array - at `$.inputs[0]`"),
        ("matrices", {"inputs": []}, "expected objects by the names of the inputs, BOOL"),
        ("matrices", {"instances": [1]}, "expected objects by the names of the inputs, BOOL"),
        ("scalars", {"instances": [{}]}, "send it in `inputs`"),
        ("texts", {"instances": ["a", 1]}, "expected BYTES, got int - at `$.instances[1]`"),
        ("texts", {"instances": ["a", {"b64": 1}]}, "got object - at `$.instances[1]`"),
        ("texts", {"instances": ["a", {"b65": "a"}]}, "got object - at `$.instances[1]`"),
        ("texts", {"instances": ["a", {"b64": "a"}]}, "base64"),
        ("texts", {"instances": ["a", {"b64": "é==="}]}, "at `$.instances[1].b64`"),
        ("texts", {"instances": ["a", {"b64": "a$b="}]}, "at `$.instances[1].b64`"),
        ("texts", b'{"instances": ["\\ud800"]}', "not as the protocol"),
        ("texts", b'{"instances": ["NaN", "\\ud800"], "x": NaN}', "surrogate"),
        ("texts", {"inputs": {"text": [{"b64": "*"}]}}, "at `$.inputs.text[0].b64`"),
        ("flowers", {"instances": [{"size": [1, 2], "kind": "a"}, {"size": [1], "kind": "b"}]},
         "expected 2 elements, got 1 - at `$.instances[1].size`"),
        ("flowers", {"instances": [{"size": [1, 2], "kind": ["a"]}]}, "`$.instances[0].kind`"),
        ("flowers", {"instances": [{"size": [1, 2], "kind": {"b64": "*"}}]},
         "at `$.instances[0].kind.b64`"),
        ("flowers", {"inputs": {"size": [1, 2], "kind": "a"}}, "got int - at `$.inputs.size[0]`"),
        ("undeclared", {"instances": [1]}, "declares no tensors"),
    ],
    ids=lambda given: repr(given)[:60],
)  # fmt: skip
def test_predict(client: Client, model: str, body: Any, words: str) -> None:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(f"/v1/models/{model}:predict", text)
    assert_refused(answer, words)


GOOD = {"size": [1, 2], "kind": "a"}


@pytest.mark.parametrize(
    ("model", "verb", "body", "words"),
    [
        ("half", "classify", {"examples": [{"x": 1}]}, "no signature for classify"),
        ("half", "regress", {"examples": [{"x": 1}]}, "no signature for regress"),
        ("flowers", "classify", {"examples": [GOOD], "signature_name": "area"}, "named, fixed"),
        ("flowers", "regress", {"examples": [GOOD], "signature_name": "x"}, "declared: area"),
        ("flowers", "classify", {}, "no `examples`"),
        ("flowers", "classify", {"instances": [1]}, "no `examples`"),
        ("flowers", "classify", {"examples": []}, "`$.examples`"),
        ("flowers", "classify", {"examples": {}}, "got object - at `$.examples`"),
        ("flowers", "classify", {"examples": [1]}, "got int - at `$.examples[0]`"),
        ("flowers", "classify", {"examples": [GOOD, {}]}, "missing - at `$.examples[1]`"),
        ("flowers", "classify", {"examples": [{**GOOD, "b": 1}]}, "no input 'b'"),
        ("flowers", "classify", {"examples": [GOOD], "context": []}, "`$.context`"),
        ("flowers", "classify", {"examples": [GOOD], "context": {"kind": "b"}}, "in the context"),
        (
            "flowers", "classify", {"examples": [GOOD, {**GOOD, "size": [1]}]},
            "expected 2 elements, got 1 - at `$.examples[1].size`",
        ),
        (
            "flowers", "regress", {"examples": [GOOD, {**GOOD, "size": [1, "2"]}]},
            "got text - at `$.examples[1].size[1]`",
        ),
        (
            "flowers", "regress", {"examples": [GOOD, {**GOOD, "kind": ["a", "b"]}]},
            "at `$.examples[1].kind`",
        ),
        ("scalars", "regress", {"examples": [GOOD]}, "no signature for regress"),
    ],
    ids=lambda given: repr(given)[:60],
)  # fmt: skip
def test_examples(client: Client, model: str, verb: str, body: Any, words: str) -> None:
    assert_refused(client.post_json(f"/v1/models/{model}:{verb}", body), words)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("POST", "/v1/models/nobody:predict", 404, "nobody"),
        ("POST", "/v1/models/nobody/labels/stable:predict", 404, "nobody"),
        ("POST", "/v1/models/half/versions/9:predict", 404, "version"),
        ("POST", "/v1/models/half/labels/canary:predict", 404, "no label 'canary'"),
        ("POST", "/v1/models/half:explain", 501, "explains nothing"),
        ("POST", "/v1/models/nobody:explain", 404, "nobody"),
        ("GET", "/v1/models/half:predict", 405, "POST"),
        ("POST", "/v1/models/half", 405, "GET"),
        ("DELETE", "/v1/models", 405, "GET"),
        ("GET", "/v1/models/nobody", 404, "nobody"),
        ("GET", "/v1/models/nobody/metadata", 404, "nobody"),
        ("GET", "/v1/models/half/versions/9", 404, "no version '9'"),
        ("GET", "/v1/models/half/labels/canary", 404, "no label 'canary'"),
        ("GET", "/v1/models/half/labels/canary/metadata", 404, "no label 'canary'"),
        ("GET", "/v1/models/undeclared/metadata", 400, "declares no tensors"),
        ("GET", "/v1", 404, "nothing at this path"),
        ("GET", "/v1/", 404, "nothing at this path"),
        ("GET", "/v1/models/half/versions", 404, "nothing at this path"),
        ("GET", "/v1/models/half/nothing", 404, "nothing at this path"),
        ("POST", "/v1/models/:predict", 404, "nothing at this path"),
        ("POST", "/v1/models/half:train", 405, "GET"),
        ("GET", "/v1/models/half:train", 404, "half:train"),
        ("GET", "/v1/models/%FF%00", 404, "no model"),
        ("POST", "/v1/models/a%2F..:predict", 404, "a/.."),
    ],
)
def test_paths(client: Client, method: str, path: str, status: int, words: str) -> None:
    body = b'{"instances": [1]}' if method == "POST" else b""
    answer = client.request(method, path, body)
    assert_refused(answer, words, status=status)
    if status == 405:
        assert words in answer.headers["allow"]
