"""`millstream bench` against real servers: what it sends, counts, draws, keeps, and refuses."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from millstream.__main__ import main
from tests.ports import free_port

BUSY_BODY = b'{"error": {"code": "overloaded", "message": "later"}}'
QUICK = ("--seconds", "0.5", "--warm-up", "0")


class Server:
    """Answers by path: /ok, /busy (503), /slow (0.2 s), /chunks, /close, /never."""

    def __init__(self) -> None:
        self.came: list[tuple[str, str, bytes, str | None]] = []
        came = self.came
        self.never = never = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                came.append((self.command, self.path, body, self.headers.get("Content-Type")))
                if self.path == "/never":
                    never.wait(20)
                if self.path == "/slow":
                    time.sleep(0.2)
                busy = self.path == "/busy"
                answer = BUSY_BODY if busy else b"{}"
                self.send_response(503 if busy else 200)
                if self.path == "/chunks":
                    self.send_header("Transfer-Encoding", "chunked")
                    answer = b"2\r\n{}\r\n0\r\n\r\n"
                else:
                    self.send_header("Content-Length", str(len(answer)))
                if self.path == "/close":
                    self.send_header("Connection", "close")
                    self.close_connection = True
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_GET = do_POST = do_HEAD = answer

            def log_message(self, *_: object) -> None:
                pass

        class Many(ThreadingHTTPServer):
            request_queue_size = 1024

            def handle_error(self, *_: object) -> None:
                pass  # the client has hung up

        self._server = Many(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.never.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as serving:
        yield serving


@pytest.fixture
def figures(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[dict[str, object]]]:
    """The figures of a run against a path of the server."""

    def run(path: str, *options: str) -> list[dict[str, object]]:
        server.came.clear()
        assert main(["bench", server.url(path), "--json", *QUICK, *options]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return [run["figures"] for run in json.loads(out)["runs"]]

    return run


Figures = Callable[..., list[dict[str, object]]]


def test_an_open_loop_sends_what_is_planned(figures: Figures, server: Server) -> None:
    (found,) = figures("/ok", "--rate", "100", "--arrivals", "constant", "--slo-ms", "10000")
    assert found["sent"] == found["ok"] == found["in_time"] == 50
    assert found["statuses"] == {"200": 50}
    assert server.came[0] == ("GET", "/ok", b"", None)
    # Load goes on for a while after what counts.
    assert len(server.came) > 50


def test_several_processes_share_it(figures: Figures) -> None:
    options = ("--rate", "90", "--processes", "2", "--arrivals", "constant", "--requests", "30")
    (found,) = figures("/ok", *options)
    assert found["sent"] == found["ok"] == 30
    assert len(found["processor_percent"]) == 2  # type: ignore[arg-type]


def test_bodies_are_sent_in_turn_with_their_type(
    figures: Figures, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(b"one")
    (tmp_path / "b.png").write_bytes(b"two")
    files = ("--body", str(tmp_path / "a.png"), "--body", str(tmp_path / "b.png"))
    figures("/ok", "--clients", "1", "--requests", "4", *files, "--header", "X-A: b")
    assert server.came == [
        ("POST", "/ok", body, "image/png") for body in (b"one", b"two", b"one", b"two")
    ]
    figures("/ok", "--clients", "1", "--requests", "1", "--data", '{"x": 1}', "--method", "put")
    # The server knows no PUT.
    figures("/ok", "--clients", "1", "--requests", "1", "--data", '{"x": 1}')
    assert server.came == [("POST", "/ok", b'{"x": 1}', "application/json")]


def test_clients_wait_for_their_answers(figures: Figures, server: Server) -> None:
    (found,) = figures("/slow", "--clients", "3", "--requests", "6", "--seconds", "20")
    assert found["sent"] == found["ok"] == len(server.came) == 6
    assert found["percentiles_ms"]["p50"] >= 200.0  # type: ignore[index]
    assert found["connections"] == 3


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/chunks", ("--clients", "2")),
        ("/close", ("--clients", "2")),
        ("/close", ("--rate", "40")),
        ("/ok", ("--method", "HEAD", "--rate", "40")),
    ],
)
def test_answers_of_any_form(figures: Figures, path: str, options: tuple[str, ...]) -> None:
    (found,) = figures(path, "--requests", "10", "--seconds", "20", *options)
    assert found["ok"] == found["sent"] == 10


def test_errors_are_told_by_status_and_code(figures: Figures) -> None:
    (found,) = figures("/busy", "--clients", "1", "--requests", "5", "--slo-ms", "1000")
    assert (found["ok"], found["in_time"], found["errors"]) == (0, 0, 5)
    assert (found["statuses"], found["codes"]) == ({"503": 5}, {"overloaded": 5})


@pytest.mark.parametrize("load", [("--clients", "2"), ("--rate", "20")])
def test_who_gets_no_answer_gives_up(figures: Figures, load: tuple[str, str]) -> None:
    (found,) = figures("/never", *load, "--requests", "3", "--timeout", "0.3")
    assert found["timeouts"] == found["sent"] == 3


def test_a_sweep_with_all_that_can_be_made_of_it(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, drawn = tmp_path / "a.json", tmp_path / "a.html"
    options = ("--sweep", "20,40", "--slo-ms", "10000", *QUICK)
    argv = ["bench", server.url("/ok"), *options, "--save", str(saved), "--plot", str(drawn)]
    assert main(argv) == 0
    assert "SLO: 99 % of what is sent within 10000 ms" in capsys.readouterr().out
    assert "<svg" in drawn.read_text()
    assert main(["bench", str(saved), "--compare", str(saved)]) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"p99, ms +\S+ +\S+ +\+0\.0%", out)) == 2


def test_that_no_rate_is_low_enough_is_told(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    # No answer is in time, so that there is nothing below this.
    argv = ["bench", server.url("/slow"), "--find", "--rate", "1", "--slo-ms", "50", *QUICK]
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert "0.00%" in out
    assert err.splitlines()[-1].startswith("millstream: no rate met the SLO")


def test_what_cannot_be_measured_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, server: Server
) -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    assert main(["bench", url, "--clients", "1"]) == 1
    assert capsys.readouterr() == ("", f"millstream: {url}: Connection refused\n")
    assert main(["bench", f"unix:{tmp_path}/no.sock:/a", "--clients", "1"]) == 1
    assert capsys.readouterr().err.endswith(": No such file or directory\n")
    (tmp_path / "no.json").write_text("{}")
    for argv, words in (
        (["http://a/"], "give --rate N, --clients N, --sweep N,N,… or --find"),
        (["http://a/", "--rate", "1", "--clients", "1"], "--clients and --rate exclude each other"),
        (["http://a/", "--find"], "--find needs --slo-ms MS"),
        (["ftp://a/", "--rate", "1"], "ftp://a/: is no URL"),
        (["unix:a", "--rate", "1"], "is no unix:/path"),
        (["http://a/ b", "--rate", "1"], "characters that must be written as %XX"),
        (["http://a/", "--rate", "0"], "--rate: must be a number of requests a second"),
        (["http://a/", "--sweep", "1,x"], "--sweep: must be a number of requests a second"),
        (["http://a/", "--rate", "1", "--slo-ms", "-1"], "--slo-ms: must be"),
        (["http://a/", "--rate", "1", "--slo-share", "101"], "--slo-share: must be"),
        (["http://a/", "--rate", "1", "--arrivals", "x"], "--arrivals: must be poisson"),
        (["http://a/", "--rate", "1", "--method", "BREW"], "--method: must be one of GET"),
        (["http://a/", "--rate", "1", "--header", "a b"], "--header: must be 'NAME: VALUE'"),
        (["http://a/", "--rate", "1", "--header", "A: b\r\nC: d"], "--header: must be"),
        (["http://a/", "--rate", "1", "--header", "Content-Length: 9"], "is set for each body"),
        (["http://a/", "--rate", "1", "--body", "/no/file"], "/no/file: No such file"),
        (["http://a/", "--rate", "1", "--plot", "a.png"], "--plot: must end with .svg"),
        (["http://a/", "--rate", "1", "--compare", "/no"], "/no: No such file"),
        (["http://a/", "--clients", "1", "--processes", "2"], "no more than --clients"),
        ([str(tmp_path / "no.json")], "is no file of --save"),
        ([str(tmp_path / "no.json"), "--rate", "1"], "there is nothing to send to"),
    ):
        assert main(["bench", *argv]) == 2, argv
        err = capsys.readouterr().err
        assert words in err, argv
        assert err.count("\n") == 1, argv


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_ctrl_c_ends_it_and_its_processes(server: Server) -> None:
    argv = [sys.executable, "-m", "millstream", "bench", server.url("/ok"), "--rate", "20"]
    with subprocess.Popen(
        [*argv, "--seconds", "60", "--processes", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        server.came.clear()
        end = time.monotonic() + 20
        while not server.came:
            assert time.monotonic() < end
            time.sleep(0.02)
        senders = children(process.pid)
        assert len(senders) == 2
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert not any(Path(f"/proc/{pid}").exists() for pid in senders)


def test_a_server_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        stop = threading.Event()

        def nonsense() -> None:
            while not stop.is_set():
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    peer.settimeout(5)
                    try:
                        if peer.recv(1000):
                            peer.sendall(b"SSH-2.0-nobody\r\n\r\n")
                    except OSError:
                        continue

        thread = threading.Thread(target=nonsense)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        options = ("--clients", "1", "--requests", "2", *QUICK)
        assert main(["bench", url, *options]) == 0
        stop.set()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(20)
    out = capsys.readouterr().out
    assert "could not be read: no HTTP/1 answer" in out
    assert "whose connection ended" in out
