"""Reading wrk: what its output says, and what must never pass for a figure."""

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from benchmarks import load
from tests.ports import free_port

CLEAN = """\
Running 2s test @ http://127.0.0.1:8000/pipelines/one
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.58ms  551.04us   5.28ms   68.33%
    Req/Sec    24.50k     4.11k   29.58k    50.00%
  Latency Distribution
     50%  244.00us
     75%    3.02ms
     90%    3.35ms
     99%    1.07s
  24372 requests in 1.00s, 3.56MB read
Requests/sec:  24298.45
Transfer/sec:      3.55MB
"""
SOCKET_ERRORS = "  Socket errors: connect 0, read 12, write 0, timeout 3\n"
needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
BAD_STATUS = "  Non-2xx or 3xx responses: 17\n"


def with_line(line: str) -> str:
    return CLEAN.replace("Requests/sec:", line + "Requests/sec:")


def test_clean_output_gives_figures_in_one_unit() -> None:
    assert load.parse(CLEAN) == load.Measurement(
        requests=24372, requests_per_s=24298.45, p50_ms=0.244, p99_ms=1070.0
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (SOCKET_ERRORS, "socket errors: read 12, timeout 3"),
        (BAD_STATUS, "17 answers that are not 2xx"),
        (
            SOCKET_ERRORS + BAD_STATUS,
            "socket errors: read 12, timeout 3; 17 answers that are not 2xx",
        ),
    ],
)
def test_every_error_that_wrk_counts_is_a_fault(line: str, fault: str) -> None:
    assert load.parse(with_line(line)).fault == fault


def test_no_answer_at_all_is_a_fault() -> None:
    assert load.parse(CLEAN.replace("24372 requests", "0 requests")).fault == "no answer"


@pytest.mark.parametrize("output", ["", "unable to connect to 127.0.0.1:1", CLEAN[:-80]])
def test_anything_else_is_refused(output: str) -> None:
    with pytest.raises(ValueError, match="not the output of wrk"):
        load.parse(output)


@needs_wrk
def test_a_server_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    script_file = load.write_request(tmp_path, b"{}", {})
    url = f"http://127.0.0.1:{free_port()}/"
    assert "unable to connect" in load.run(url, script_file, clients=1, seconds=1).fault


class Recorder(BaseHTTPRequestHandler):
    """Answers one POST after the other, and remembers what came."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.headers["Content-Type"], body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def recorder() -> Iterator[str]:
    """The URL of a server that records what it is sent."""
    Recorder.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join(10)


@needs_wrk
def test_wrk_posts_every_byte_with_its_headers(tmp_path: Path, recorder: str) -> None:
    body = bytes(range(256)) * 1024
    script_file = load.write_request(tmp_path, body, {"Content-Type": 'text/"odd"; a=\\b'})
    assert load.run(recorder, script_file, clients=1, seconds=1).fault == ""
    assert set(Recorder.seen) == {('text/"odd"; a=\\b', body)}


@needs_wrk
def test_a_script_that_wrk_cannot_read_is_a_fault(tmp_path: Path, recorder: str) -> None:
    script_file = tmp_path / "request.lua"
    script_file.write_text("wrk.method = = 'POST'")
    assert "wrk: " in load.run(recorder, script_file, clients=1, seconds=1).fault
