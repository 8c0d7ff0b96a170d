"""Load generators as processes: at the same time, each with its headers; failures are faults."""

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from benchmarks import offers
from benchmarks.offers import Offer
from benchmarks.open_loop import Plan
from benchmarks.peers.server import Exchange, Target
from tests.ports import free_port

EXCHANGE = Exchange("/a", b'{"x": 1}', "")


class Recorder(BaseHTTPRequestHandler):
    """Counts what came by the client's key, and answers with 200."""

    protocol_version = "HTTP/1.1"
    came: ClassVar[Counter[tuple[str, str, bytes]]] = Counter()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.came[self.path, self.headers["X-Api-Key"], body] += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    # The generators open all their connections at once.
    request_queue_size = 128
    daemon_threads = True


@pytest.fixture
def url() -> Iterator[str]:
    """Where a recorder listens."""
    Recorder.came.clear()
    with Server(("127.0.0.1", 0), Recorder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/a"
        server.shutdown()
        thread.join(10)


def offer(rate_per_s: float, key: str) -> Offer:
    plan = Plan(rate_per_s=rate_per_s, seconds=0.3, deadline_s=0.3, seed=1, warm_up_s=0.0)
    return Offer(plan, {"X-Api-Key": key})


def target(url: str) -> Target:
    return Target(url, EXCHANGE, Path(), {})


def test_each_client_sends_its_own(url: str) -> None:
    clients = [offer(100.0, "a"), offer(20.0, "b")]
    found = offers.measure(target(url), clients)
    moments = {client.headers["X-Api-Key"]: client.plan.moments() for client in clients}
    assert Recorder.came == {("/a", key, EXCHANGE.body): len(moments[key]) for key in "ab"}
    assert [figures.sent for figures in found] == [
        len(client.plan.counted(client.plan.moments())) for client in clients
    ]


def test_a_generator_that_fails_has_measured_nothing() -> None:
    nobody = f"http://127.0.0.1:{free_port()}/"
    [found] = offers.measure(target(nobody), [offer(10.0, "a")])
    assert found.fault.startswith("the load generator exited with 1: http://127.0.0.1:")
    assert found.sent == 0
