"""`millstream call` against a gateway that is scripted."""

import io
from pathlib import Path

import numpy as np
import pytest

from broker.payload.bodies import decode_body, encode_body
from millstream.__main__ import main
from tests.integration.client.scripted_server import ScriptedServer, chunked, refusal, reply


def call(server: ScriptedServer, *argv: str) -> int:
    return main(["call", "p", *argv, "--url", server.url])


def test_json(capfd: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer([reply(b'{"a": [1, null]}')]) as server:
        assert call(server, '"hello"', "--version", "2") == 0
    assert capfd.readouterr().out == '{"a":[1,null]}\n'
    (seen,) = server.seen
    assert seen.line == "POST /pipelines/p/versions/2 HTTP/1.1"
    assert (seen.body, seen.headers["content-type"]) == (b'"hello"', "application/json")


def test_a_file_and_bytes_as_the_answer(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(b"\x89PNG")
    with ScriptedServer([reply(b"\xff\0", content_type="image/png")]) as server:
        assert call(server, "--file", str(path)) == 0
    assert capfdbinary.readouterr().out == b"\xff\0"
    assert (server.seen[0].body, server.seen[0].headers["content-type"]) == (
        b"\x89PNG",
        "image/png",
    )


def test_an_array(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.eye(2))
    body, kind = encode_body(np.ones(2), "application/vnd.millstream.objects")
    with ScriptedServer([reply(bytes(body), content_type=kind)]) as server:
        assert call(server, "--file", str(path)) == 0
    assert capfd.readouterr().out == "[1.0,1.0]\n"
    (seen,) = server.seen
    np.testing.assert_array_equal(decode_body(seen.body, seen.headers["content-type"]), np.eye(2))


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"[1]")))
    with ScriptedServer([reply()]) as server:
        assert call(server, "--file", "-") == 0
    assert server.seen[0].body == b"[1]"
    assert capfd.readouterr().out == '"done"\n'


def test_a_stream(capfd: pytest.CaptureFixture[str]) -> None:
    stream = chunked("text/event-stream", b"data: 1\n\ndata: [2]\n\nevent: end\n\n")
    with ScriptedServer([stream]) as server:
        assert call(server, "1", "--stream") == 0
    assert capfd.readouterr().out == "1\n[2]\n"


def test_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer([refusal("rejected", "422 Unprocessable Entity")]) as server:
        assert call(server, "1") == 1
    assert capfd.readouterr().err == "millstream: 422 rejected: so it is\n"
