"""CORS, compressed answers and Unix sockets, on a real gateway."""

import gzip
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.messages import Answer, SubmitItem
from gateway.options import GatewayOptions
from gateway.server import CannotStart
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker
from tests.integration.gateway.harness import Response, RunningGateway

ORIGIN = "https://a.example"
PAGE = {"Origin": ORIGIN}
ASKED = {**PAGE, "Access-Control-Request-Method": "POST"}


def allowed(response: Response) -> str | None:
    return response.headers.get("access-control-allow-origin")


class TestCors:
    @pytest.fixture
    def gateway(self, broker: FakeBroker, start_gateway: StartGateway) -> RunningGateway:
        return start_gateway(cors_origins=(ORIGIN,), max_body_bytes=100).wait_until_ready()

    def test_answers_name_the_origin(self, gateway: RunningGateway) -> None:
        answer = gateway.post(b"[1]", PAGE)
        assert (answer.status, answer.body, allowed(answer)) == (200, b"[1]", ORIGIN)
        assert answer.headers["vary"] == "Origin"
        assert allowed(gateway.request("GET", "/pipelines", headers=PAGE)) == ORIGIN

    def test_so_do_errors(self, gateway: RunningGateway) -> None:
        errors = {
            400: gateway.post(b"1", {**PAGE, "X-Timeout-Ms": "soon"}),
            404: gateway.post(b"1", PAGE, pipeline="none"),
            413: gateway.post(b"1" * 101, PAGE),
            405: gateway.request("GET", "/inference", headers=PAGE),
        }
        for status, answer in errors.items():
            assert (answer.status, allowed(answer)) == (status, ORIGIN)

    def test_preflight(self, gateway: RunningGateway) -> None:
        with gateway.connect() as client:
            wanted = {**ASKED, "Access-Control-Request-Headers": "x-priority"}
            client.send_request("OPTIONS", "/pipelines/digits", headers=wanted)
            answer = client.read_response(head_only=True)
            assert (answer.status, allowed(answer)) == (204, ORIGIN)
            assert answer.headers["access-control-allow-methods"] == "GET, HEAD, POST"
            assert answer.headers["access-control-allow-headers"] == "x-priority"
            assert "content-length" not in answer.headers
            client.send_request("POST", "/pipelines/digits", b"1", PAGE)
            assert client.read_response().status == 200

    def test_other_origins(self, gateway: RunningGateway) -> None:
        other = {"Origin": "https://b.example"}
        assert allowed(gateway.post(b"1", other)) is None
        assert gateway.request("OPTIONS", "/pipelines/digits", headers={**ASKED, **other}).code == (
            "method_not_allowed"
        )

    def test_any_origin_and_bytes_that_are_no_request(
        self, broker: FakeBroker, start_gateway: StartGateway
    ) -> None:
        gateway = start_gateway(cors_origins=("*",)).wait_until_ready()
        assert allowed(gateway.post(b"1", {"Origin": "null"})) == "*"
        with gateway.connect() as client:
            client.send(b"nonsense\r\n\r\n")
            assert allowed(client.read_response()) == "*"


def test_the_document_needs_a_broker(start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    assert gateway.request("GET", "/openapi.json").code == "not_ready"


def test_the_document_is_of_what_is_served(gateway: RunningGateway) -> None:
    answer = gateway.request("GET", "/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert "/pipelines/digits/versions/{version}" in answer.json()["paths"]
    assert gateway.request("POST", "/openapi.json").headers["allow"] == "GET, HEAD"


def test_without_cors_nothing_is_said(gateway: RunningGateway) -> None:
    assert allowed(gateway.post(b"1", PAGE)) is None
    answer = gateway.request("OPTIONS", "/inference", headers=ASKED)
    assert (answer.code, answer.headers["allow"]) == ("method_not_allowed", "POST")


class TestCompression:
    @pytest.fixture
    def gateway(self, broker: FakeBroker, start_gateway: StartGateway) -> RunningGateway:
        return start_gateway(compress_bytes=1000).wait_until_ready()

    @pytest.mark.parametrize("size", [1000, 5000, 200_000])
    def test_large_json(self, gateway: RunningGateway, size: int) -> None:
        body = b"[" + b"1," * (size // 2 - 1) + b"1]"
        answer = gateway.post(body, {"Accept-Encoding": "br, gzip"})
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["vary"] == "Accept-Encoding"
        assert len(answer.body) < size / 10
        assert gzip.decompress(answer.body) == body
        assert answer.headers["x-model-version"] == "v1"

    def test_small_json_and_clients_that_do_not_want_it(self, gateway: RunningGateway) -> None:
        for body, accept in ((b"1" * 999, "gzip"), (b"1" * 5000, ""), (b"1" * 5000, "gzip;q=0")):
            answer = gateway.post(body, {"Accept-Encoding": accept})
            assert answer.body == body
            assert "content-encoding" not in answer.headers

    def test_images_are_left_as_they_are(self, broker: FakeBroker, gateway: RunningGateway) -> None:
        def image(item: SubmitItem) -> Answer:
            return Answer(item.seq, b"P" * 3000, content_type="image/png")

        broker.respond = image
        answer = gateway.post(b"1", {"Accept-Encoding": "gzip"})
        assert answer.body == b"P" * 3000

    def test_a_client_that_goes_meanwhile(self, gateway: RunningGateway) -> None:
        with gateway.connect() as client:
            headers = {"Accept-Encoding": "gzip"}
            client.send_request("POST", "/pipelines/digits", b"7" * 10_000_000, headers)
        assert gateway.post(b"1").status == 200


class TestUnixSocket:
    @pytest.fixture
    def path(self) -> Iterator[str]:
        folder = tempfile.mkdtemp(prefix="gw-")
        yield str(Path(folder) / "http")
        shutil.rmtree(folder)

    @staticmethod
    def ask(path: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5.0)
            client.connect(path)
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: client.recv(1 << 16), b""))

    def test_it_listens_there_and_leaves_nothing(
        self, start_gateway: StartGateway, path: str
    ) -> None:
        gateway = start_gateway(uds=path)
        assert self.ask(path).startswith(b"HTTP/1.1 200 OK")
        gateway.stop()
        gateway.join()
        assert not os.path.exists(path)

    def test_one_that_was_left_over_is_replaced(
        self, start_gateway: StartGateway, path: str
    ) -> None:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        start_gateway(uds=path)
        assert self.ask(path).startswith(b"HTTP/1.1 200 OK")

    def test_one_that_is_used_is_not(
        self, start_gateway: StartGateway, path: str, address: str
    ) -> None:
        start_gateway(uds=path)
        with (
            pytest.raises(CannotStart, match="another process does"),
            RunningGateway(GatewayOptions(broker=address, uds=path)),
        ):
            pass
        assert self.ask(path).startswith(b"HTTP/1.1 200 OK")

    def test_a_path_that_cannot_be(self, address: str, path: str) -> None:
        for wrong in (f"{path}/deeper", "/" + "x" * 200):
            with (
                pytest.raises(CannotStart, match="cannot listen at"),
                RunningGateway(GatewayOptions(broker=address, uds=wrong)),
            ):
                pass
