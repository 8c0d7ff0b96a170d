"""`millstream.testing`: a chain in this process answers as a deployment of the same plug-ins."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.testing import Pipeline, pipeline
from tests.system.deployment import Deployment

pytestmark = pytest.mark.system

PLUGINS = Path(__file__).parent / "plugins" / "parity.py"
STAGES = ("Enter", "Middle", "Leave")
FILE = """
[pipelines.parity]
chain = ["enter", "middle", "leave"]
headers = ["X-Shown"]

[pipelines.parity.stages.leave]
max_batch_size = 2
"""
REQUESTS: dict[str, tuple[bytes, dict[str, str]]] = {
    "json": (b'{"a": [1, 2.5, null]}', {}),
    "json with a type": (b"[1]", {"Content-Type": "application/json; charset=utf-8"}),
    "no json": (b"{", {}),
    "empty": (b"", {}),
    "deep": (b"[" * 200 + b"]" * 200, {}),
    "text": ("grün".encode("latin-1"), {"Content-Type": "text/plain; charset=latin-1"}),
    "odd charset": (b"x", {"Content-Type": "text/plain; charset=nope"}),
    "bytes come back": (b"\x00\xff", {"Content-Type": "image/png"}),
    "msgpack out": (b'{"a": 1}', {"Accept": "application/msgpack"}),
    "msgpack in": (b"\x81\xa1a\x01", {"Content-Type": "application/msgpack"}),
    "what a plug-in may know": (b'{"do": "about"}', {"X-Shown": "yes", "X-Hidden": "no"}),
    "a set cannot travel": (b'{"do": "set"}', {}),
    "small array": (b'{"do": "array", "count": 3}', {}),
    "large array": (b'{"do": "array", "count": 40000}', {}),
    "raises": (b'{"do": "raise"}', {}),
    "rejects": (b'{"do": "reject"}', {}),
    "returns an exception": (b'{"do": "return"}', {}),
    "writes into its item": (b'{"do": "write", "data": "xy"}', {}),
    "one result too few": (b'{"do": "short"}', {}),
    "stream": (b'{"do": "stream", "count": 3}', {}),
    "stream as lines": (b'{"do": "stream", "count": 2}', {"Accept": "application/x-ndjson"}),
    "empty stream": (b'{"do": "stream", "count": 0}', {}),
    "stream that breaks": (b'{"do": "stream", "count": 3, "breaks_at": 2}', {}),
    "stream that breaks at once": (b'{"do": "stream", "count": 3, "breaks_at": 0}', {}),
    "bytes": (b'{"do": "bytes"}', {}),
    "no answer can hold it": (b'{"do": "object"}', {}),
    "nan": (b'{"do": "nan"}', {}),
}


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    with Deployment(pipelines=FILE) as mill:
        mill.broker()
        for stage in STAGES:
            mill.worker(f"{PLUGINS}:{stage}", "--version", "7")
        mill.gateway()
        mill.wait_ready()
        yield mill


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    file = tmp_path_factory.mktemp("parity") / "pipeline.toml"
    file.write_text(FILE)
    with pipeline(file, *(f"{PLUGINS}:{stage}" for stage in STAGES), version="7") as run:
        yield run


@pytest.mark.parametrize("what", REQUESTS)
def test_a_chain_in_this_process_answers_as_a_deployment(
    what: str, mill: Deployment, chain: Pipeline
) -> None:
    body, headers = REQUESTS[what]
    headers = {"X-Request-Id": "same", **headers}
    with mill.client() as client:
        real = client.request("POST", "/pipelines/parity", body, headers)
    here = chain(
        body,
        content_type=headers.get("Content-Type"),
        accept=headers.get("Accept", ""),
        headers=headers,
        request_id="same",
    )
    assert here.status == real.status
    assert nameless(here.body) == nameless(real.body)
    for name, value in here.headers.items():
        assert real.headers[name.lower()] == value, name
    if here.status >= 400:
        assert here.code == real.code


def nameless(body: bytes) -> bytes:
    """Without the ids of errors, which are drawn by chance."""
    return re.sub(rb"error [0-9a-f]{12}", b"error ...", body)
