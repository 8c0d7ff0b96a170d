"""Wrong requests through gateway, broker and worker: each is told why, and harms nobody."""

import gzip
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.system.client import Client, HttpAnswer
from tests.system.deployment import Deployment, wait_until

pytestmark = pytest.mark.system

ECHO = Path(__file__).parent / "plugins" / "echo.py"
PATH = "/pipelines/echo"
MAX_BODY_BYTES = 1 << 20
JSON = {"Content-Type": "application/json"}
MSGPACK = {"Content-Type": "application/msgpack"}
GZIP = {**JSON, "Content-Encoding": "gzip"}


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    with Deployment(pipelines='[pipelines.echo]\nchain = ["echo"]\n') as mill:
        mill.broker()
        mill.worker(ECHO)
        mill.gateway("--max-body", "1MiB", "--body-timeout", "1")
        mill.wait_ready()
        yield mill


@pytest.fixture(scope="module")
def client(mill: Deployment) -> Iterator[Client]:
    """One connection for all requests, as long as the gateway keeps it."""
    with mill.client() as client:
        yield client


class Bad(NamedTuple):
    """A request, and what it must be answered."""

    body: bytes
    status: int
    code: str
    headers: Mapping[str, str] = MappingProxyType({})
    path: str = PATH
    method: str = "POST"


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


BAD = {
    "not JSON": Bad(b"hello", 400, "bad_body", JSON),
    "not JSON, without a type": Bad(b"hello", 400, "bad_body"),
    "cut short": Bad(b'{"a": [1, 2', 400, "bad_body", JSON),
    "more than one": Bad(b"1 2", 400, "bad_body", JSON),
    "empty": Bad(b"", 400, "bad_body", JSON),
    "empty, without a type": Bad(b"", 400, "bad_body"),
    "NaN": Bad(b"[NaN]", 400, "bad_body", JSON),
    "more than 100 levels": Bad(nested(101), 400, "bad_body", JSON),
    "100,000 levels": Bad(nested(100_000), 400, "bad_body", JSON),
    "an integer of 65 bits": Bad(b"[18446744073709551616]", 400, "bad_body", JSON),
    "a negative integer of 65 bits": Bad(b"[-9223372036854775809]", 400, "bad_body", JSON),
    "an integer of 5,000 digits": Bad(b"9" * 5000, 400, "bad_body", JSON),
    "UTF-8 that is none": Bad(b'"\xff\xfe"', 400, "bad_body", JSON),
    "a lone surrogate": Bad(rb'"\ud800"', 400, "bad_body", JSON),
    "text that is no UTF-8": Bad(b"\xff\xfe", 400, "bad_body", {"Content-Type": "text/plain"}),
    "JSON that is called msgpack": Bad(b'{"a": 1}', 400, "bad_body", MSGPACK),
    "msgpack that is called JSON": Bad(msgpack.packb({"a": 1}), 400, "bad_body", JSON),
    "msgpack, cut short": Bad(msgpack.packb([1, "two"])[:-1], 400, "bad_body", MSGPACK),
    "msgpack of 101 levels": Bad(b"\x91" * 101 + b"\xc0", 400, "bad_body", MSGPACK),
    "a form without parts": Bad(
        b"--x\r\n", 400, "bad_body", {"Content-Type": "multipart/form-data; boundary=x"}
    ),
    "gzip that is none": Bad(b"[1]", 400, "bad_body", GZIP),
    "gzip, cut short": Bad(gzip.compress(b"[1, 2, 3]")[:-6], 400, "bad_body", GZIP),
    "a gzip bomb": Bad(gzip.compress(b" " * (8 << 20)), 413, "body_too_large", GZIP),
    "too large": Bad(b"1" * (MAX_BODY_BYTES + 1), 413, "body_too_large", JSON),
    "a coding that nobody knows": Bad(
        b"[1]", 415, "unsupported_type", {**JSON, "Content-Encoding": "snappy"}
    ),
    "a charset that JSON has not": Bad(
        b"[1]", 415, "unsupported_type", {"Content-Type": "application/json; charset=koi8-r"}
    ),
    "no such pipeline": Bad(b"[1]", 404, "unknown_pipeline", path="/pipelines/ehco"),
    "no such version": Bad(b"[1]", 404, "unknown_version", path=f"{PATH}/versions/99"),
    "no such page": Bad(b"[1]", 404, "not_found", path="/pipeline"),
    "the wrong method": Bad(b"[1]", 405, "method_not_allowed", method="DELETE"),
    "a timeout that is no number": Bad(b"[1]", 400, "bad_header", {"X-Timeout-Ms": "soon"}),
    "a timeout that is past": Bad(b"[1]", 400, "bad_header", {"X-Timeout-Ms": "-5"}),
    "an unknown priority": Bad(b"[1]", 400, "bad_header", {"X-Priority": "urgent"}),
    "refused by the plug-in": Bad(b'{"reject": "no"}', 422, "rejected", JSON),
    "the plug-in raises": Bad(b'{"raise": "secret"}', 500, "worker_error", JSON),
    "a result that cannot travel": Bad(b'{"odd": 1}', 500, "worker_error", JSON),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=list(BAD))
def test_a_bad_request_is_told_why_and_the_next_is_answered(client: Client, bad: Bad) -> None:
    answer = client.request(bad.method, bad.path, bad.body, {**bad.headers, "X-Request-Id": "me-1"})
    assert (answer.status, answer.code) == (bad.status, bad.code), answer.body
    error = answer.json()["error"]
    assert error["request_id"] == "me-1"
    assert error["message"]
    assert "Traceback" not in error["message"]
    assert "secret" not in error["message"]
    good = client.post(PATH, b'{"name": "next"}', JSON)
    assert good.status == 200
    assert good.json()["name"] == "next"


GOOD: dict[str, tuple[bytes, dict[str, str], Any]] = {
    "no type is JSON": (b"[1]", {}, [1]),
    "100 levels": (nested(100), JSON, json.loads(nested(100))),
    "the largest integers": (b"[18446744073709551615, -9223372036854775808]", JSON, None),
    "a pair of surrogates": (rb'"\ud83d\ude00"', JSON, "\U0001f600"),
    "gzip": (gzip.compress(b"[1, 2]"), GZIP, [1, 2]),
    "msgpack": (msgpack.packb({"a": [1.5, None]}), MSGPACK, {"a": [1.5, None]}),
    "text": ("grüße".encode(), {"Content-Type": "text/plain; charset=utf-8"}, "grüße"),
}


@pytest.mark.parametrize(("body", "headers", "value"), GOOD.values(), ids=list(GOOD))
def test_what_is_just_within_the_limits_is_answered(
    client: Client, body: bytes, headers: dict[str, str], value: Any
) -> None:
    answer = client.post(PATH, body, headers)
    assert answer.status == 200, answer.body
    assert answer.json() == (json.loads(body) if value is None else value)


def test_other_types_are_bytes(client: Client) -> None:
    answer = client.post(PATH, b"\x00\xff", {"Content-Type": "image/x-own"})
    assert (answer.status, answer.body) == (200, b"\x00\xff")
    assert answer.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"NONSENSE\r\n\r\n", 400, "bad_request"),
        (b"POST /pipelines/echo HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n", 400, None),
        (
            b"POST /pipelines/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            400,
            "bad_request",
        ),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 431, None),
        (b"POST /pipelines/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n[1", 408, None),
    ],
    ids=["no HTTP", "no length", "no chunk", "endless headers", "a body that does not come"],
)
def test_what_is_no_request_is_told_so_in_the_same_form(
    mill: Deployment, client: Client, sent: bytes, status: int, code: str | None
) -> None:
    with socket.create_connection(("127.0.0.1", mill.port), timeout=10) as raw:
        raw.sendall(sent)
        with raw.makefile("rb") as stream:
            head = stream.readline()
            while stream.readline() not in {b"\r\n", b""}:
                pass
            error = json.loads(stream.read())["error"]  # to the end: the gateway hangs up
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert set(error) == {"code", "message", "request_id"}
    assert code is None or error["code"] == code
    assert client.post(PATH, b"1", JSON).status == 200


def test_who_hangs_up_in_the_middle_of_a_body_harms_nobody(
    mill: Deployment, client: Client
) -> None:
    with socket.create_connection(("127.0.0.1", mill.port), timeout=10) as raw:
        raw.sendall(b"POST /pipelines/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n[1, 2")
    assert client.post(PATH, b"1", JSON).status == 200
    wait_until(lambda: held(mill) == 0, 15, "nothing is held")


def test_a_bad_item_changes_nobody_elses_answer(mill: Deployment) -> None:
    wrong: dict[int, tuple[bytes, int, str]] = {
        3: (b'{"raise": "now"}', 500, "worker_error"),
        10: (b'{"reject": "no"}', 422, "rejected"),
        17: (b'{"name": ', 400, "bad_body"),
        24: (b'{"odd": 1}', 500, "worker_error"),
    }
    answers: dict[int, HttpAnswer] = {}

    def ask(number: int) -> None:
        body, *_ = wrong.get(number, (json.dumps({"name": number}).encode(), 200, ""))
        with mill.client() as own:
            answers[number] = own.post(PATH, body, JSON)

    gate = mill.folder / "gate"
    busy = threading.Thread(target=keep_busy, args=(mill, gate))
    busy.start()
    wait_until(lambda: held(mill) == 1, 15, "the worker is busy")
    asking = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
    for thread in asking:
        thread.start()
    wait_until(lambda: held(mill) == 1 + 32, 15, "all have come")
    gate.touch()
    for thread in [*asking, busy]:
        thread.join(20)
    assert len(answers) == 32
    for number, answer in answers.items():
        _, status, code = wrong.get(number, (b"", 200, ""))
        assert (answer.status, answer.code) == (status, code), number
        if status == 200:
            assert answer.json()["name"] == number
    # They did run together, and a bad one halves its batch.
    sizes = [answer.json()["batch_size"] for answer in answers.values() if answer.status == 200]
    assert max(sizes) > 1


def held(mill: Deployment) -> int:
    """How many requests the broker has that are not answered."""
    return int(mill.status()["pipelines"]["echo"]["items"])


def keep_busy(mill: Deployment, gate: Path) -> None:
    """Keep the worker busy until there is this file, so that what comes meanwhile is batched."""
    with mill.client() as client:
        assert client.post_json(PATH, {"gate": str(gate)}).status == 200
