"""The gateway as a process: start, refusal to start, signals, draining."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from gateway.server import NEEDED_FILES
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker
from tests.integration.gateway.harness import RawClient, RunningGateway

SCRIPT = """
import resource, sys
from broker.wire import log
from gateway.options import GatewayOptions
from gateway.server import serve
log.setup("logfmt")
options = dict(arg.split("=", 1) for arg in sys.argv[1:])
files = int(options.pop("files", 0))
if files:
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
numbers = {name: float(options.pop(name)) for name in ("drain_s",) if name in options}
sys.exit(serve(GatewayOptions(port=int(options.pop("port")), **options, **numbers)))
"""


class Process:
    """A gateway in a process of its own, on a port that was free a moment ago."""

    def __init__(self, **options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        options = {"port": str(self.port), **options}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *(f"{k}={v}" for k, v in options.items())],
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_it_listens(self) -> "Process":
        """Until its line about that stands in the log."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "event=listening" in line:
                assert f"url=http://127.0.0.1:{self.port} broker=" in line
                return self
        raise AssertionError("it ended")

    def wait_until_ready(self) -> None:
        """Until a broker has told it all."""
        until = time.monotonic() + 15
        while time.monotonic() < until:
            with RawClient(self.port) as client:
                client.send_request("GET", "/readyz")
                if client.read_response().status == 200:
                    return
        raise AssertionError("never ready")

    def end(self, within_s: float) -> tuple[int, str]:
        """Its exit code and the rest of its log."""
        _, log = self.process.communicate(timeout=within_s)
        return self.process.returncode, log


Start = Callable[..., Process]


@pytest.fixture
def start(address: str) -> Iterator[Start]:
    """Starts gateways; none outlives the test."""
    processes: list[Process] = []

    def start(**options: str) -> Process:
        processes.append(Process(**{"broker": address, **options}))
        return processes[-1]

    yield start
    for process in processes:
        process.process.kill()
        process.process.communicate()


# ------------------------------------------------------------------ start


def test_a_port_in_use_is_one_line(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, log = start(port=str(port)).end(15)
    assert code == 2
    assert log.startswith(f"millstream gateway: cannot listen on 127.0.0.1:{port}: ")
    assert log.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("broker", "nonsense"), ("keys", "/nowhere"), ("host", "256.1.1.1"), ("files", "40")],
)
def test_what_cannot_be_is_one_line(start: Start, option: str, value: str) -> None:
    code, log = start(**{option: value}).end(15)
    assert code == 2
    assert log.startswith("millstream gateway: ")
    assert log.count("\n") == 1


# ------------------------------------------------------------------ files


def test_more_clients_than_files_are_turned_away_by_word(broker: FakeBroker, start: Start) -> None:
    """The system would end their connections without one, and without our knowing."""
    process = start(files=str(NEEDED_FILES)).wait_until_it_listens()
    process.wait_until_ready()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(process.port)) for _ in range(100)]
        statuses = []
        for client in clients:
            client.send_request("POST", "/pipelines/digits", b"1")
            response = client.read_response()
            statuses.append(response.status)
            if response.status == 503:
                assert response.code == "overloaded"
                assert (response.headers["retry-after"], response.headers["connection"]) == (
                    "1",
                    "close",
                )
        served = statuses.count(200)
        assert 32 <= served < 100
        assert statuses == [200] * served + [503] * (100 - served), "those that came first stay"
        clients[0].send_request("GET", "/metrics")
        turned_away = f"millstream_gateway_turned_away_total {100 - served}.0"
        assert turned_away in clients[0].read_response().body.decode()
    process.wait_until_ready()


# ------------------------------------------------------------------ signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_work_it_leaves_soon(address: str, start: Start, number: int) -> None:
    with FakeBroker(address) as broker:
        process = start().wait_until_it_listens()
        broker.wait_for(lambda: broker.gateways)
        process.process.send_signal(number)
        code, _ = process.end(15)
        assert code == 0
        broker.wait_for(broker.said_goodbye, "no goodbye")


def test_without_a_broker_it_leaves_soon_too(start: Start) -> None:
    process = start().wait_until_it_listens()
    with RawClient(process.port) as client:
        client.send_request("POST", "/pipelines/digits", b"held")
        with RawClient(process.port) as probe:  # so that the one before it has been read
            probe.send_request("GET", "/livez")
            probe.read_response()
        process.process.terminate()
        client.socket.settimeout(15)
        response = client.read_response()
        assert (response.status, response.code) == (503, "draining")
        assert response.headers["connection"] == "close"
        assert process.end(15)[0] == 0


def test_what_is_held_is_answered(address: str, start: Start) -> None:
    with FakeBroker(address, respond=lambda _: None) as broker:
        process = start().wait_until_it_listens()
        process.wait_until_ready()
        with RawClient(process.port) as waiting, RawClient(process.port) as idle:
            idle.send_request("GET", "/livez")
            assert idle.read_response().status == 200
            waiting.send_request("POST", "/pipelines/digits", b"1")
            (item,) = broker.wait_for_items(1)
            process.process.terminate()
            refused_connection(process.port)
            idle.send_request("POST", "/pipelines/digits", b"late")
            refused = idle.read_response()
            assert (refused.status, refused.code) == (503, "draining")
            assert refused.headers["connection"] == "close"
            broker.answer(item, b"in time")
            response = waiting.read_response()
            assert response.body == b"in time"
            assert response.headers["connection"] == "close"
            assert process.end(15)[0] == 0


def test_an_upload_that_has_begun_is_held_as_well(address: str, start: Start) -> None:
    with FakeBroker(address):
        process = start().wait_until_it_listens()
        process.wait_until_ready()
        with RawClient(process.port) as client:
            client.send(
                b"POST /pipelines/digits HTTP/1.1\r\nHost: t\r\n"
                b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
            )
            assert client.read_response().status == 100
            process.process.terminate()
            refused_connection(process.port)
            client.send(b"abc")
            response = client.read_response()
            assert (response.status, response.body) == (200, b"abc")
            assert process.end(15)[0] == 0


def test_the_drain_has_an_end(address: str, start: Start) -> None:
    with FakeBroker(address, respond=lambda _: None) as broker:
        process = start(drain_s="0.2").wait_until_it_listens()
        process.wait_until_ready()
        with RawClient(process.port) as client, RawClient(process.port) as uploading:
            client.send_request("POST", "/pipelines/digits", b"1")
            uploading.send(
                b"POST /pipelines/digits HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nabc"
            )
            (item,) = broker.wait_for_items(1)
            process.process.terminate()
            for connection in (client, uploading):
                response = connection.read_response()
                assert (response.status, response.code) == (503, "draining")
            assert process.end(15)[0] == 0
        broker.wait_for(lambda: item.seq in broker.cancelled(), "no Cancel")


def test_a_second_signal_ends_it_at_once(address: str, start: Start) -> None:
    with FakeBroker(address, respond=lambda _: None) as broker:
        process = start(drain_s="30").wait_until_it_listens()
        process.wait_until_ready()
        with RawClient(process.port) as client:
            client.send_request("POST", "/pipelines/digits", b"1")
            broker.wait_for_items(1)
            process.process.terminate()
            refused_connection(process.port)
            process.process.terminate()
            assert process.end(15)[0] == 128 + signal.SIGTERM


def refused_connection(port: int) -> None:
    """Until nobody listens there any more."""
    until = time.monotonic() + 15
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            continue  # it stood in line when the socket was closed
        time.sleep(0.005)
    raise AssertionError("it still listens")


# ------------------------------------------------------------------ the rest


def test_readiness_ends_with_the_drain(address: str, start_gateway: StartGateway) -> None:
    with FakeBroker(address, respond=lambda _: None) as broker:
        gateway: RunningGateway = start_gateway(drain_s=20.0).wait_until_ready()
        with gateway.connect() as waiting, gateway.connect() as probe:
            waiting.send_request("POST", "/pipelines/digits", b"1")
            (item,) = broker.wait_for_items(1)
            probe.send_request("GET", "/livez")
            probe.read_response()
            gateway.stop()
            with contextlib.suppress(AssertionError):
                refused_connection(gateway.port)
            probe.send_request("GET", "/readyz")
            response = probe.read_response()
            assert (response.status, response.code) == (503, "not_ready")
            broker.answer(item, b"done")
            assert waiting.read_response().body == b"done"
        gateway.join()


def test_no_descriptor_is_left_open(broker: FakeBroker, gateway: RunningGateway) -> None:
    gateway.post()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        gateway.post()
    gateway.wait_for(
        lambda: gateway.metrics()["millstream_gateway_connections"] == 1, "connections are left"
    )
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert broker.items
