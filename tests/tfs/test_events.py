"""CloudEvents, as KServe takes them: answered in the mode in which they came."""

import json
from typing import Any

import pytest

from tests.system.client import Client

pytestmark = pytest.mark.system

ATTRIBUTES = {
    "specversion": "1.0",
    "id": "36077800-0c23-4f38-a0b4-01f4369f670a",
    "source": "https://example.com/event-producer",
    "type": "com.example.sampletype1",
}
HEADERS = {f"ce-{name}": value for name, value in ATTRIBUTES.items()}
STRUCTURED = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
PATH = "/v1/models/half:predict"
DATA = b'{"instances": [1.0, NaN]}'


def assert_answer(attributes: dict[str, Any]) -> None:
    assert attributes["specversion"] == "1.0"
    assert attributes["source"] == "io.kserve.inference.half"
    assert attributes["type"] == "io.kserve.inference.response"
    assert attributes["id"] not in ("", ATTRIBUTES["id"])
    assert attributes["time"].endswith("+00:00")


def test_binary_mode(client: Client) -> None:
    answer = client.post(PATH, DATA, {**HEADERS, "Content-Type": "application/json"})
    assert (answer.status, answer.body) == (200, b'{"predictions":[2.5,NaN]}')
    assert answer.headers["content-type"] == "application/json"
    assert_answer({name[3:]: text for name, text in answer.headers.items() if name[:3] == "ce-"})


def test_structured_mode(client: Client) -> None:
    event = {**ATTRIBUTES, "data": {"instances": [1.0, 2.0]}, "extra": 1}
    answer = client.post(PATH, json.dumps(event).encode(), STRUCTURED)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/cloudevents+json"
    assert not any(name.startswith("ce-") for name in answer.headers)
    document = answer.json()
    assert document.pop("data") == {"predictions": [2.5, 3.0]}
    assert_answer(document)


def test_plain_requests_are_no_events(client: Client) -> None:
    answer = client.post(PATH, DATA, {"ce-id": "1"})
    assert answer.status == 200
    assert not any(name.startswith("ce-") for name in answer.headers)


@pytest.mark.parametrize("lacking", ["id", "source", "type"])
def test_what_lacks_something(client: Client, lacking: str) -> None:
    headers = {name: value for name, value in HEADERS.items() if name != f"ce-{lacking}"}
    answer = client.post(PATH, DATA, headers)
    assert (answer.status, answer.json()) == (400, {"error": f"the event has no {lacking!r}"})
    event = {name: value for name, value in ATTRIBUTES.items() if name != lacking}
    text = json.dumps({**event, "data": {"instances": [1.0]}}).encode()
    answer = client.post(PATH, text, STRUCTURED)
    assert answer.status == 400
    assert lacking in answer.json()["error"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"specversion": "9"}, "specversion"),
        ({"id": ""}, "no 'id'"),
        ({"id": 1}, "$.id"),
        ({"datacontenttype": "text/xml"}, "'text/xml'"),
        ({"data": None}, "$.data"),
        ({"data": {"instances": ["a"]}}, "`$.instances[0]`"),
    ],
)
def test_what_is_wrong(client: Client, changes: dict[str, Any], words: str) -> None:
    event = {**ATTRIBUTES, "data": {"instances": [1.0]}, **changes}
    answer = client.post(PATH, json.dumps(event).encode(), STRUCTURED)
    assert answer.status == 400, answer.body
    assert words in answer.json()["error"]
    without = {name: value for name, value in event.items() if name != "data"}
    assert client.post(PATH, json.dumps(without).encode(), STRUCTURED).status == 400
