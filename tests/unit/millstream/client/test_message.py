"""What a call sends, and what its answers mean."""

import numpy as np
import pytest

from broker.payload.bodies import decode_body
from millstream.client.errors import BadAnswer, CallFailed
from millstream.client.message import Place, answer, encode, message, place, timing_ms

JSON = "application/json"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000", Place("127.0.0.1", 8000)),
        ("http://host/", Place("host", 80)),
        ("https://host/models/", Place("host", 443, True, "/models")),
        ("http://[::1]:9", Place("::1", 9)),
        ("unix:/run/mill.sock", Place("localhost", 0, socket_path="/run/mill.sock")),
    ],
)
def test_places(url: str, expected: Place) -> None:
    assert place(url) == expected


@pytest.mark.parametrize("url", ["", "host:8000", "ftp://host", "http://", "http://host/?a=b"])
def test_what_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="is no URL of a gateway"):
        place(url)


def test_a_request() -> None:
    sent = message(
        "a/b", {"x": 1}, version="2 b", content_type=JSON, accept="*/*", headers={"X-Api-Key": "k"}
    )
    assert sent.target == "/pipelines/a%2Fb/versions/2%20b"
    assert sent.body == b'{"x":1}'
    assert sent.timed(1.5) == {
        "Content-Type": JSON,
        "Accept": "*/*",
        "X-Api-Key": "k",
        "X-Timeout-Ms": "1500.000",
    }
    assert sent.timed(1e-9)["X-Timeout-Ms"] == "1.000"  # none is no number of milliseconds


@pytest.mark.parametrize(
    ("value", "content_type", "kind"),
    [
        (b"\x89PNG", "", "application/octet-stream"),
        (b"\x89PNG", "image/png", "image/png"),
        ("é", "text/plain; charset=latin-1", "text/plain; charset=latin-1"),
        (["a", 1], JSON, JSON),
        (["a", 1], "application/msgpack", "application/msgpack"),
        (("a", 1), "", "application/vnd.millstream.objects"),
        ("é", "", "application/vnd.millstream.objects"),
    ],
)
def test_values(value: object, content_type: str, kind: str) -> None:
    body, said = encode(value, content_type)
    assert said == kind
    assert decode_body(body, said) == value


def test_an_array_comes_back_as_one() -> None:
    array = np.ones((2, 3), np.float16)
    body, kind = encode({"a": array})
    back = answer(200, {"content-type": kind, "x-model-version": "2"}, body)
    np.testing.assert_array_equal(back.value["a"], array)
    assert back.value["a"].dtype == np.float16
    assert back.version == "2"


@pytest.mark.parametrize(
    ("value", "content_type", "message"),
    [
        ({"a": object()}, "", r'value\["a"\]: object cannot be sent'),
        ({"a": object()}, JSON, r'value\["a"\]: object cannot be sent'),
        ([2**64], "", r"value\[0\]: int cannot be sent \(only integers"),
        ([1], "image/png", "only bytes can be sent as image/png, not list"),
    ],
)
def test_what_cannot_be_sent(value: object, content_type: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(value, content_type)


def test_errors() -> None:
    body = b'{"error":{"code":"queue_full","message":"too much","request_id":"r1"}}'
    with pytest.raises(CallFailed, match="429 queue_full: too much") as caught:
        answer(429, {"retry-after": "3"}, body)
    assert caught.value.retryable
    assert caught.value.retry_after_s == 3.0
    assert caught.value.request_id == "r1"


def test_errors_of_a_proxy() -> None:
    with pytest.raises(CallFailed) as caught:
        answer(502, {"retry-after": "Fri, 31 Dec 2027 23:59:59 GMT"}, b"<h1>Bad gateway</h1>")
    assert (caught.value.code, caught.value.retryable) == ("", False)
    assert caught.value.message == "<h1>Bad gateway</h1>"
    assert caught.value.retry_after_s == 0.0


def test_an_answer_that_is_none() -> None:
    with pytest.raises(BadAnswer, match="JSON"):
        answer(200, {"content-type": JSON}, b"{")


def test_timing() -> None:
    header = "infer-queue;dur=0.125, infer-run;dur=2.500, cache;desc=hit, odd;dur=x"
    assert timing_ms(header) == {"infer-queue": 0.125, "infer-run": 2.5}
    assert timing_ms("") == {}
