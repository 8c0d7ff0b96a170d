"""/admin on a real gateway: who may, what is asked of the broker, and what comes of it."""

import json
import socket
from pathlib import Path

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import Ask, Report
from gateway.admin import MAX_BODY_BYTES
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker
from tests.integration.gateway.harness import Response, RunningGateway

TOKEN = "0123456789abcdef"
BASE = "/admin/pipelines/digits"
LOCAL = {"Host": "localhost:8000"}
JSON = {**LOCAL, "Content-Type": "application/json"}
EPOCH = 1


def post(
    gateway: RunningGateway,
    what: str,
    body: object = None,
    headers: dict[str, str] | None = None,
) -> Response:
    sent = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    return gateway.request("POST", f"{BASE}/{what}", sent, headers or JSON)


def asked(broker: FakeBroker) -> tuple[str, object]:
    """The latest question."""
    ask = broker.asked()[-1]
    return ask.what, json.loads(ask.body)


class TestOperations:
    def test_each_one_asks_the_broker(self, gateway: RunningGateway, broker: FakeBroker) -> None:
        document = b'{"pipeline":"digits","weights":{"2":95.0,"3":5.0}}'
        broker.report = lambda ask: Report(EPOCH, document, id=ask.id)
        answer = gateway.request("GET", f"{BASE}/traffic", headers=LOCAL)
        assert (answer.status, answer.body) == (200, document)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-request-id"]
        assert asked(broker) == ("traffic", {"pipeline": "digits"})
        weights = {"weights": {"2": 95, "3": 5}, "why": "a look"}
        assert post(gateway, "traffic", weights).body == document
        by = {"pipeline": "digits", "by": "127.0.0.1"}
        assert asked(broker) == ("traffic", {**weights, **by})
        assert post(gateway, "rollback", {"by": "ann"}).status == 200
        assert asked(broker) == ("rollback", {**by, "by": "ann@127.0.0.1"})
        assert post(gateway, "rollback", b"").status == 200
        assert asked(broker) == ("rollback", by)
        assert post(gateway, "promote", {"version": "3", "pipeline": "digits"}).status == 200
        assert asked(broker) == ("promote", {**by, "version": "3"})
        compare = gateway.request("GET", f"{BASE}/compare?a=2&b=3", headers=LOCAL)
        assert compare.status == 200
        assert asked(broker) == ("compare", {"pipeline": "digits", "a": "2", "b": "3"})
        history = gateway.request("GET", f"{BASE}/history?limit=7", headers=LOCAL)
        assert history.status == 200
        assert asked(broker) == ("history", {"pipeline": "digits", "limit": 7})

    @pytest.mark.parametrize(
        ("code", "status", "name"),
        [
            (ErrorCode.UNKNOWN_PIPELINE, 404, "unknown_pipeline"),
            (ErrorCode.UNKNOWN_VERSION, 404, "unknown_version"),
            (ErrorCode.BAD_REQUEST, 400, "bad_request"),
            (ErrorCode.NOT_READY, 503, "not_ready"),
        ],
    )
    def test_the_broker_says_no(
        self, gateway: RunningGateway, broker: FakeBroker, code: ErrorCode, status: int, name: str
    ) -> None:
        broker.report = lambda ask: Report(EPOCH, b"", code, "there is no version 9", id=ask.id)
        answer = post(gateway, "traffic", {"weights": {"9": 1}})
        assert (answer.status, answer.code) == (status, name)
        assert answer.json()["error"]["message"] == "there is no version 9"

    def test_what_could_not_be_kept_is_told(
        self, gateway: RunningGateway, broker: FakeBroker
    ) -> None:
        broker.report = lambda ask: Report(EPOCH, b'{"a":1}', 0, "in force, not kept", id=ask.id)
        assert post(gateway, "rollback").json() == {"a": 1, "warning": "in force, not kept"}

    def test_answers_find_their_questions(
        self, gateway: RunningGateway, broker: FakeBroker
    ) -> None:
        """The first is answered last, and is none of the status page's business."""
        held: list[Ask] = []

        def report(ask: Ask) -> Report | None:
            if ask.what == "rollback":
                held.append(ask)
                return None
            return Report(EPOCH, json.dumps({"what": ask.what}).encode(), id=ask.id)

        broker.report = report
        with gateway.connect() as first:
            first.send_request("POST", f"{BASE}/rollback", b"{}", JSON)
            broker.wait_for(lambda: held)
            answer = gateway.request("GET", f"{BASE}/history", headers=LOCAL)
            assert answer.json() == {"what": "history"}
            broker.send(Report(EPOCH, b'{"what":"rollback"}', id=held[0].id))
            assert first.read_response().json() == {"what": "rollback"}

    def test_a_change_that_waits_is_accepted(
        self, gateway: RunningGateway, broker: FakeBroker
    ) -> None:
        def report(ask: Ask) -> Report | None:
            if b"weights" in ask.body:
                return None
            return Report(EPOCH, b'{"pending":{"waits_for":["4"]}}', id=ask.id)

        broker.report = report
        answer = post(gateway, "traffic", {"weights": {"4": 1}}, {**JSON, "X-Timeout-Ms": "800"})
        assert (answer.status, answer.json()) == (202, {"pending": {"waits_for": ["4"]}})

    def test_a_broker_that_goes_meanwhile(self, address: str, start_gateway: StartGateway) -> None:
        with FakeBroker(address) as broker:
            gateway = start_gateway().wait_until_ready()
            broker.report = lambda _ask: None
            client = gateway.connect()
            client.send_request("POST", f"{BASE}/rollback", b"{}", JSON)
            broker.wait_for(broker.asked)
        with client, FakeBroker(address, epoch=2):
            answer = client.read_response()
            assert (answer.status, answer.code) == (503, "not_ready")
            assert "whether it was done" in answer.json()["error"]["message"]

    def test_no_broker(self, start_gateway: StartGateway) -> None:
        gateway = start_gateway()
        answer = post(gateway, "rollback")
        assert (answer.status, answer.code) == (503, "not_ready")

    def test_a_gateway_that_ends(self, gateway: RunningGateway, broker: FakeBroker) -> None:
        broker.report = lambda _ask: None
        with gateway.connect() as client:
            client.send_request("POST", f"{BASE}/rollback", b"{}", JSON)
            broker.wait_for(broker.asked)
            gateway.stop()
            answer = client.read_response()
            assert (answer.status, answer.code) == (503, "draining")

    def test_whoever_hangs_up_is_forgotten(
        self, gateway: RunningGateway, broker: FakeBroker
    ) -> None:
        held: list[Ask] = []
        broker.report = held.append
        with gateway.connect() as client:
            client.send_request("POST", f"{BASE}/rollback", b"{}", JSON)
            broker.wait_for(lambda: held)
        broker.report = lambda ask: Report(EPOCH, b"{}", id=ask.id)
        broker.send(Report(EPOCH, b"{}", id=held[0].id))
        assert gateway.request("GET", f"{BASE}/traffic", headers=LOCAL).status == 200


class TestMistakes:
    @pytest.mark.parametrize(
        ("method", "what", "allow"),
        [
            ("DELETE", "traffic", "GET, HEAD, POST"),
            ("GET", "rollback", "POST"),
            ("PUT", "promote", "POST"),
            ("POST", "history", "GET, HEAD"),
            ("OPTIONS", "traffic", "GET, HEAD, POST"),
        ],
    )
    def test_methods(self, gateway: RunningGateway, method: str, what: str, allow: str) -> None:
        answer = gateway.request(method, f"{BASE}/{what}", headers=JSON)
        assert (answer.status, answer.headers["allow"]) == (405, allow)
        assert answer.code == "method_not_allowed"

    @pytest.mark.parametrize("path", ["", "/", "/pipelines", "/pipelines/digits", f"{BASE}/x"])
    def test_paths(self, gateway: RunningGateway, path: str) -> None:
        path = path if path.startswith("/admin") else f"/admin{path}"
        assert gateway.request("GET", path, headers=LOCAL).status == 404

    @pytest.mark.parametrize(
        "body",
        [b"{", b"[]", b"3", b'"x"', b"\xff", b"[" * 5000, b'{"by": 3}', b'{"pipeline": "other"}'],
    )
    def test_bodies(self, gateway: RunningGateway, broker: FakeBroker, body: bytes) -> None:
        answer = post(gateway, "traffic", body)
        assert answer.status == 400
        assert answer.code in ("bad_body", "bad_request")
        assert not broker.asked()

    @pytest.mark.parametrize("query", ["a=1&a=2", "c=1", "limit=x", "limit=-1", "pipeline=other"])
    @pytest.mark.parametrize("what", ["history", "compare"])
    def test_queries(
        self, gateway: RunningGateway, broker: FakeBroker, what: str, query: str
    ) -> None:
        answer = gateway.request("GET", f"{BASE}/{what}?{query}", headers=LOCAL)
        assert (answer.status, answer.code) == (400, "bad_request")
        assert not broker.asked()

    def test_too_large(self, gateway: RunningGateway, broker: FakeBroker) -> None:
        body = b'{"why": "' + b"x" * MAX_BODY_BYTES + b'"}'
        answer = post(gateway, "rollback", body)
        assert (answer.status, answer.code) == (413, "body_too_large")
        assert not broker.asked()

    @pytest.mark.parametrize(
        "content_type",
        ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
    )
    def test_what_a_form_could_send(
        self, gateway: RunningGateway, broker: FakeBroker, content_type: str
    ) -> None:
        headers = {**LOCAL, "Content-Type": content_type} if content_type else LOCAL
        answer = post(gateway, "rollback", b"{}", headers)
        assert (answer.status, answer.code) == (415, "unsupported_type")
        assert not broker.asked()

    def test_other_headers(self, gateway: RunningGateway) -> None:
        squeezed = post(gateway, "rollback", b"", {**JSON, "Content-Encoding": "gzip"})
        assert squeezed.status == 415
        assert post(gateway, "rollback", b"", {**JSON, "X-Timeout-Ms": "soon"}).code == "bad_header"


class TestAccess:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Host": "rebound.example:8000"},  # a name of the page's own, bound to 127.0.0.1
            {"Host": "localhost.example"},
            {"Host": "127.0.0.1.example"},
            {"Host": ""},
            {"Host": "10.0.0.1"},
            {"Origin": "https://a.example"},
            {"Origin": "null"},
            {"Origin": "http://localhost:9999"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"X-Forwarded-For": "10.0.0.9"},
            {"x-forwarded-host": "mill.example"},
            {"Forwarded": "for=10.0.0.9"},
            {"Via": "1.1 proxy"},
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_pages_and_proxies_may_not(
        self, gateway: RunningGateway, broker: FakeBroker, method: str, headers: dict[str, str]
    ) -> None:
        answer = gateway.request(method, f"{BASE}/traffic", b"{}", {**JSON, **headers})
        assert (answer.status, answer.code) == (403, "forbidden")
        assert not broker.asked()

    @pytest.mark.parametrize(
        "headers",
        [
            {"Host": "127.0.0.1:8000"},
            {"Host": "[::1]:8000"},
            {"Host": "LOCALHOST"},
            {"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
        ],
    )
    def test_this_host_may(self, gateway: RunningGateway, headers: dict[str, str]) -> None:
        assert post(gateway, "rollback", {}, {**JSON, **headers}).status == 200

    @pytest.mark.parametrize(
        "target",
        [f"{BASE}/traffic", "/%61dmin/pipelines/digits/traffic", f"http://x{BASE}/traffic"],
    )
    def test_no_origin_is_ever_let_in(
        self, broker: FakeBroker, start_gateway: StartGateway, target: str
    ) -> None:
        gateway = start_gateway(cors_origins=("*",), admin_token=TOKEN).wait_until_ready()
        page = {**JSON, "Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
        known = {**page, "Authorization": f"Bearer {TOKEN}"}
        for method, headers, status in (
            ("OPTIONS", page, 401),
            ("OPTIONS", known, 405),
            ("GET", known, 200),
            ("POST", known, 200),
            ("POST", page, 401),
        ):
            answer = gateway.request(method, target, b"{}", headers)
            assert answer.status == status
            assert not [name for name in answer.headers if name.startswith("access-control")]

    @pytest.mark.parametrize(
        "authorization",
        [
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Basic {TOKEN}",
            TOKEN,
            f"Bearer {TOKEN}, Bearer {TOKEN}",
            "Bearer \xff\xfe",
        ],
    )
    def test_without_the_token(
        self, broker: FakeBroker, start_gateway: StartGateway, authorization: str
    ) -> None:
        gateway = start_gateway(admin_token=TOKEN).wait_until_ready()
        headers = {**JSON, "Authorization": authorization} if authorization else JSON
        answer = post(gateway, "rollback", {}, headers)
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert TOKEN.encode() not in answer.body
        assert not broker.asked()

    def test_with_the_token_from_anywhere(
        self, broker: FakeBroker, start_gateway: StartGateway, capfd: pytest.CaptureFixture[str]
    ) -> None:
        gateway = start_gateway(admin_token=TOKEN, access_log=True).wait_until_ready()
        for scheme in ("Bearer", "bearer"):
            headers = {
                "Host": "mill.example",
                "Content-Type": "application/json; charset=utf-8",
                "X-Forwarded-For": "10.0.0.9",
                "Authorization": f"{scheme} {TOKEN}",
            }
            assert post(gateway, "rollback", {}, headers).status == 200
        assert TOKEN not in "".join(capfd.readouterr())

    def test_another_host_may_not(self, broker: FakeBroker, start_gateway: StartGateway) -> None:
        own = _own_address()
        gateway = start_gateway(host="0.0.0.0").wait_until_ready()
        with socket.create_connection((own, gateway.port), timeout=5) as client:
            client.sendall(f"GET {BASE}/traffic HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 403 ")
        assert not broker.asked()

    def test_a_unix_socket_is_local(
        self, broker: FakeBroker, start_gateway: StartGateway, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "g.sock")
        gateway = start_gateway(uds=path)
        gateway.wait_for(lambda: _over(path, "", "/readyz").startswith(b"HTTP/1.1 200"), "ready")
        assert _over(path, "", f"{BASE}/traffic").startswith(b"HTTP/1.1 200 ")
        page = "Origin: https://a.example\r\n"
        assert _over(path, page, f"{BASE}/traffic").startswith(b"HTTP/1.1 403 ")


def _own_address() -> str:
    """One of this host that is not its loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no address but its loopback")
        return str(probe.getsockname()[0])


def _over(path: str, headers: str, target: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(path)
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: any\r\n{headers}\r\n".encode())
        return client.recv(1 << 16)


def test_a_body_that_never_comes(broker: FakeBroker, start_gateway: StartGateway) -> None:
    gateway = start_gateway(body_timeout_s=0.3).wait_until_ready()
    with gateway.connect() as client:
        client.send_request("POST", f"{BASE}/rollback", b"{", {**JSON, "Content-Length": "2"})
        answer = client.read_response()
        assert (answer.status, answer.code) == (408, "body_timeout")
    assert not broker.asked()
