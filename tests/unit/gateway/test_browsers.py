"""What browsers are told (CORS), and which answers are compressed."""

import gzip

import pytest

from gateway.cors import Cors
from gateway.deflate import deflate, is_worth_it
from gateway.headers import accepts_gzip

PREFLIGHT = {
    "Origin": "https://a.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type, x-timeout-ms",
}


def test_any_origin() -> None:
    cors = Cors(["https://a.example", "*"])
    assert "Access-Control-Allow-Origin: *\r\n" in cors.lines("https://b.example")
    assert cors.lines("") == cors.lines("null")
    assert "Vary" not in cors.lines("")


def test_some_origins() -> None:
    cors = Cors(["https://a.example", "http://b.example:8080"])
    lines = cors.lines("http://b.example:8080")
    assert lines.startswith("Access-Control-Allow-Origin: http://b.example:8080\r\nVary: Origin")
    assert "X-Request-Id" in lines
    assert cors.lines("https://c.example") == cors.lines("") == cors.lines("null") == ""


def test_preflight() -> None:
    lines = Cors(["https://a.example"]).preflight(PREFLIGHT, "POST")
    assert "Access-Control-Allow-Methods: POST\r\n" in lines
    assert "Access-Control-Allow-Headers: content-type, x-timeout-ms\r\n" in lines


@pytest.mark.parametrize(
    "change",
    [
        {"Origin": "https://b.example"},
        {"Access-Control-Request-Headers": "x\r\nSet-Cookie: a=b"},
        {"Access-Control-Request-Headers": "é"},
    ],
)
def test_what_is_none(change: dict[str, str]) -> None:
    assert Cors(["https://a.example"]).preflight({**PREFLIGHT, **change}, "POST") == ""
    assert Cors(["*"]).preflight({"Origin": "https://a.example"}, "POST") == ""


@pytest.mark.parametrize(
    ("value", "accepts"),
    [
        ("", False),
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity, deflate", False),
        ("gzip;q=0.01", True),
        ("x-gzip", False),
    ],
)
def test_accept_encoding(value: str, accepts: bool) -> None:
    assert accepts_gzip(value) is accepts


@pytest.mark.parametrize(
    ("content_type", "worth"),
    [
        ("", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/problem+json", True),
        ("image/png", False),
        ("application/octet-stream", False),
        ("application/vnd.millstream.objects", False),
    ],
)
def test_what_shrinks(content_type: str, worth: bool) -> None:
    assert is_worth_it(content_type) is worth


def test_pieces_are_one_body() -> None:
    assert gzip.decompress(deflate([b"ab", memoryview(b"cd")])) == b"abcd"
    assert gzip.decompress(deflate(b"x" * 1000)) == b"x" * 1000
