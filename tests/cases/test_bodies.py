"""Bodies that other servers stumble over, from the client to a plug-in and back."""

import math
from collections.abc import Mapping
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.cases.standing import JSON
from tests.system.client import Client

pytestmark = pytest.mark.system

PATH = "/pipelines/toy"


def content_type(text: str) -> dict[str, str]:
    return {"Content-Type": text}


# ------------------------------------------------------------------ JSON


@pytest.mark.parametrize(
    ("body", "headers", "result"),
    [
        (b'\xef\xbb\xbf{"a": 1}', JSON, {"a": 1}),
        (b'{"a": 1}', content_type('Application/JSON; Charset="UTF-8"'), {"a": 1}),
        (b'{"a": 1}', content_type("application/vnd.own+json"), {"a": 1}),
        (b"null", JSON, None),
        (b'"text"', JSON, "text"),
        (b"[]", JSON, []),
        (b'{"x": 1, "x": 2}', JSON, {"x": 2}),
        (rb'{"text": "ok \ud83d\ude00"}', JSON, {"text": "ok \U0001f600"}),
        (b'{"floats": ["nan", "inf", "-inf", "1"]}', JSON, [None, None, None, 1.0]),
        (b'{"cut": "k"}', JSON, {"k": "k\ufffd"}),
    ],
    ids=lambda given: repr(given)[:30],
)
def test_odd_but_legal(
    client: Client, body: bytes, headers: Mapping[str, str], result: Any
) -> None:
    answer = client.post(PATH, body, headers)
    assert (answer.status, answer.json()) == (200, result)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"[1]", content_type("application/json; charset=nope"), 415),
        (b"[1]", content_type("application/json; charset=utf-8,charset=utf-8"), 415),
        (b"[1]", content_type("json"), 415),
        (b"\xff\xfe{", JSON, 400),
        (b"{", JSON, 400),
        (b"[1e999]", JSON, 400),
        (b"[Infinity]", JSON, 400),
        (rb'{"\udc00": 1}', JSON, 400),
        (rb'{"text": "cut \ud83d"}', JSON, 400),
    ],
    ids=lambda given: repr(given)[:30],
)
def test_wrong(client: Client, body: bytes, headers: Mapping[str, str], status: int) -> None:
    answer = client.post(PATH, body, headers)
    assert answer.status == status, answer.body
    assert answer.code in {"bad_body", "unsupported_type"}


def test_msgpack_keeps_what_json_has_not(client: Client) -> None:
    headers = {**JSON, "Accept": "application/msgpack"}
    answer = client.post(PATH, b'{"floats": ["nan", "-inf", "0.1"]}', headers)
    nan, minus, tenth = msgpack.unpackb(answer.body)
    assert math.isnan(nan)
    assert (minus, tenth) == (-math.inf, 0.1)


# ------------------------------------------------------------------ forms

FORM = content_type("multipart/form-data; boundary=B")


def form(*parts: tuple[str, bytes], end: bytes = b"--B--\r\n") -> bytes:
    """Parts of (parameters of the disposition, content)."""
    lines = [
        b"--B\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (parameters.encode(), content)
        for parameters, content in parts
    ]
    return b"".join(lines) + end


def file(name: str, body: str = "eA==") -> dict[str, str]:
    """A file as a plug-in's answer shows it: its bytes as base64."""
    return {"filename": name, "content_type": "application/octet-stream", "body": body}


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (form(('name="f"; filename="a/b/../../x.png"', b"x")), {"f": file("a/b/../../x.png")}),
        (form(('name="f"; filename="C:\\x\\y.png"', b"x")), {"f": file("C:\\x\\y.png")}),
        (form(('name="f"; filename=""', b"x")), {"f": file("")}),
        (form((f'name="f"; filename="{"é" * 300}"', b"x")), {"f": file("é" * 300)}),
        (form(('name="f"; filename="e"', b"")), {"f": file("e", "")}),
        (form(('name="f"', b"x"), ('name="f"', b"y")), {"f": ["x", "y"]}),
    ],
    ids=["up and down", "windows", "no name", "a long name", "empty", "twice"],
)
def test_forms(client: Client, body: bytes, result: Any) -> None:
    answer = client.post(PATH, body, FORM)
    assert (answer.status, answer.json()) == (200, result)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (form(('name="f"', b"x")), content_type("multipart/form-data")),
        (form(('name="f"', b"x"), end=b""), FORM),
        (b'{"a": 1}', FORM),
    ],
    ids=["no boundary", "never closed", "JSON"],
)
def test_broken_forms(client: Client, body: bytes, headers: Mapping[str, str]) -> None:
    answer = client.post(PATH, body, headers)
    assert (answer.status, answer.code) == (400, "bad_body")


def test_browsers_of_other_origins_are_not_invited(client: Client) -> None:
    """CORS is off; a proxy in front can add it."""
    asked = {"Origin": "http://other", "Access-Control-Request-Method": "POST"}
    answer = client.request("OPTIONS", PATH, headers=asked)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert "access-control-allow-origin" not in answer.headers
