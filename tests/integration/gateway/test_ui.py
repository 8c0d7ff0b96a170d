"""/ui on a real gateway: its files, who may see what it shows, and what that costs the broker."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.messages import Report
from gateway.ui.feed import MOST_VIEWERS
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker
from tests.integration.gateway.harness import PATIENCE_S, RawClient, RunningGateway

LOCAL = {"Host": "localhost:8000"}
TOKEN = "0123456789abcdef"
STATUS = b'{"epoch":7,"pipelines":{}}'


class Page:
    """An open page: what it is sent, event by event."""

    def __init__(self, gateway: RunningGateway, headers: dict[str, str]) -> None:
        self._client = RawClient(gateway.port)
        self._client.send_request("GET", "/ui/events", headers=headers)
        self._seen = b""

    def wait_for(self, condition: Callable[[bytes], object]) -> bytes:
        """Until this is true of what it was sent, which is returned."""
        end = time.monotonic() + PATIENCE_S
        while not condition(self._seen):
            assert time.monotonic() < end, self._seen
            self._seen += self._client.receive_some()
        return self._seen

    def states(self, count: int) -> list[dict[str, Any]]:
        """The first so many events."""
        seen = self.wait_for(lambda seen: seen.count(b"}\n\n") >= count)
        lines = [line for line in seen.split(b"\n") if line.startswith(b"data: ")]
        return [json.loads(line[6:]) for line in lines[:count]]

    def close(self) -> None:
        self._client.socket.close()


def statuses(broker: FakeBroker) -> list[Any]:
    return [json.loads(ask.body) for ask in broker.asked() if ask.what == "status"]


def test_its_files_load_nothing_from_elsewhere(gateway: RunningGateway) -> None:
    page = gateway.request("GET", "/ui")
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert b"<script>" not in page.body
    assert b"http" not in page.body
    for name in ("main.js", "style.css", "icon.svg", "uPlot.iife.min.js", "uPlot.min.css"):
        assert gateway.request("GET", f"/ui/{name}").status == 200, name
    for name in ("", "x.js", "..%2ffiles.py", "package.json", "uPlot.LICENSE"):
        assert gateway.request("GET", f"/ui/{name}").status == 404, name
    assert gateway.request("POST", "/ui/events").status == 405


def test_pages_share_one_question_and_without_pages_there_is_none(
    gateway: RunningGateway, broker: FakeBroker
) -> None:
    broker.report = lambda ask: Report(1, STATUS, id=ask.id)
    before = len(statuses(broker))
    pages = [Page(gateway, LOCAL) for _ in range(5)]
    for page in pages:
        first, *_, last = page.states(3)
        assert first["broker"] == last["broker"] == {"epoch": 7, "pipelines": {}}
        assert last["gateway"]["viewers"] == 5
        assert last["gateway"]["broker_up"] is True
    asked = statuses(broker)[before:]
    assert asked[0]["points"] == 300
    assert asked[-1]["points"] < 10
    assert len(asked) <= 10
    for page in pages:
        page.close()
    gateway.wait_for(lambda: not gateway.gateway._connections, "the pages are gone")
    settled = len(statuses(broker))
    time.sleep(2.5)  # a question each second would be two more; that none comes has no event
    assert len(statuses(broker)) <= settled + 1


def test_it_tells_of_slow_requests_and_of_statuses(
    gateway: RunningGateway, broker: FakeBroker
) -> None:
    broker.report = lambda ask: Report(1, STATUS, id=ask.id)
    assert gateway.post(b"1", headers={"X-Request-Id": "slow" * 40}).status == 200
    page = Page(gateway, LOCAL)
    (state,) = page.states(1)
    page.close()
    (slow,) = state["gateway"]["slowest"]
    assert (slow["pipeline"], slow["status"]) == ("digits", 200)
    assert slow["request_id"] == ("slow" * 40)[:64]
    assert state["gateway"]["statuses"] == [["digits", 200, 1]]


def test_without_a_broker_it_says_so(start_gateway: StartGateway) -> None:
    page = Page(start_gateway(), LOCAL)
    (state,) = page.states(1)
    page.close()
    assert state["broker"] is None
    assert state["gateway"]["broker_up"] is False


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "millstream.example"},
        {**LOCAL, "Sec-Fetch-Site": "cross-site"},
        {**LOCAL, "Origin": "https://example.org"},
        {**LOCAL, "X-Forwarded-For": "10.0.0.1"},
    ],
)
def test_no_other_site_may_watch(gateway: RunningGateway, headers: dict[str, str]) -> None:
    answer = gateway.request("GET", "/ui/events", headers=headers)
    assert (answer.status, answer.code) == (403, "forbidden")


def test_with_a_token_it_is_needed(broker: FakeBroker, start_gateway: StartGateway) -> None:
    broker.report = lambda ask: Report(1, STATUS, id=ask.id)
    gateway = start_gateway(admin_token=TOKEN).wait_until_ready()
    assert gateway.request("GET", "/ui").status == 200
    answer = gateway.request("GET", "/ui/events", headers=LOCAL)
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    page = Page(gateway, {"Host": "any", "Authorization": f"Bearer {TOKEN}"})
    assert page.states(1)[0]["broker"] is not None
    page.close()


def test_no_origin_may_read_it(broker: FakeBroker, start_gateway: StartGateway) -> None:
    gateway = start_gateway(cors_origins=("*",)).wait_until_ready()
    page = Page(gateway, LOCAL)
    assert b"access-control" not in page.wait_for(lambda seen: b"data: " in seen).lower()
    page.close()


def test_a_page_ends_with_its_gateway(broker: FakeBroker, start_gateway: StartGateway) -> None:
    gateway = start_gateway(drain_s=30.0).wait_until_ready()
    page = Page(gateway, LOCAL)
    page.states(1)
    begun = time.monotonic()
    gateway.stop()
    page.wait_for(lambda seen: seen.endswith(b"0\r\n\r\n"))
    gateway.join()
    page.close()
    assert time.monotonic() - begun < 10.0


def test_there_is_a_bound(gateway: RunningGateway, broker: FakeBroker) -> None:
    pages = [Page(gateway, LOCAL) for _ in range(MOST_VIEWERS)]
    for page in pages:
        page.wait_for(lambda seen: b"\r\n\r\n" in seen)
    answer = gateway.request("GET", "/ui/events", headers=LOCAL)
    assert (answer.status, answer.code) == (503, "overloaded")
    for page in pages:
        page.close()


def test_a_worker_can_be_drained_over_http(gateway: RunningGateway, broker: FakeBroker) -> None:
    broker.report = lambda ask: Report(1, b'{"asked":"drain"}', id=ask.id)
    headers = {**LOCAL, "Content-Type": "application/json"}
    answer = gateway.request("POST", "/admin/workers/77ab/drain", b'{"by":"ui"}', headers)
    assert (answer.status, answer.json()) == (200, {"asked": "drain"})
    ask = broker.asked()[-1]
    assert (ask.what, json.loads(ask.body)) == ("drain", {"worker": "77ab", "by": "ui@127.0.0.1"})
    form = {**LOCAL, "Content-Type": "application/x-www-form-urlencoded"}
    assert gateway.request("POST", "/admin/workers/77ab/drain", b"", form).status == 415
    assert gateway.request("GET", "/admin/workers/77ab/restart", headers=LOCAL).status == 405
    assert gateway.request("POST", "/admin/workers/77ab/kill", b"{}", headers).status == 404
    other = b'{"worker":"88"}'
    assert gateway.request("POST", "/admin/workers/77ab/drain", other, headers).status == 400
