"""One table of requests, good and bad, and both faces of the protocol: the outcome is the same."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import serialize_byte_tensor, triton_to_np_dtype

from tests.oip.conftest import counted
from tests.oip.faces import Ask, Face, In, Rest, Rpc
from tests.oip.plugins.tensors import DATATYPES
from tests.system.client import Client
from tests.system.deployment import Deployment

pytestmark = pytest.mark.system

SHAPES = ([1, 1], [3, 5], [0, 4], [1, 1025], [300, 70])
"""The fourth is a little more than what stands in the header of a message, the last is for shared
memory."""
RAW = struct.pack("<4f", 1, 2, 3, 4)
TEXTS = bytes.fromhex("0200000061620000000002000000c3a9")


@pytest.fixture(scope="module")
def rpc(mill: Deployment, grpc_address: str) -> Iterator[Rpc]:
    with Rpc(grpc_address) as rpc:
        yield rpc


@pytest.fixture(params=["rest", "grpc"])
def face(request: pytest.FixtureRequest, client: Client, rpc: Rpc) -> Face:
    return Rest(client) if request.param == "rest" else rpc


def raw(datatype: str, shape: list[int]) -> bytes:
    """Values of a datatype as they travel, the same at each call."""
    random = np.random.default_rng(len(datatype) + shape[0])
    if datatype == "BYTES":
        texts = np.array([b"\xff" * (n % 3) for n in range(shape[0] * shape[1])], object)
        return bytes(serialize_byte_tensor(texts.reshape(shape)).item()) if texts.size else b""
    dtype = np.dtype("u2" if datatype == "BF16" else triton_to_np_dtype(datatype))
    if datatype in ("BOOL", "BF16"):  # any halves but NaN, which may change
        return random.integers(0, 2, shape).astype(dtype).tobytes()
    return random.integers(0, 100, shape).astype(dtype).tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_datatype_comes_back(face: Face, shape: list[int]) -> None:
    inputs = [In(name, name, shape, raw(name, shape)) for name in DATATYPES]
    said = face.ask(Ask(inputs, model="all", id="one"))
    assert said.code == "OK", said.text
    assert (said.id, said.model, said.version) == ("one", "all", "1")
    assert said.outputs == tuple((each.name, each.name, tuple(shape), each.data) for each in inputs)
    assert said.headers["x-model-version"] == "1"
    assert "all-run" in said.headers["server-timing"]


def test_outputs_come_as_they_are_asked_for(face: Face) -> None:
    inputs = [In(name, name, [1, 1], raw(name, [1, 1])) for name in reversed(DATATYPES)]
    outputs: list[tuple[str, dict[str, Any]]] = [("FP64", {}), ("BOOL", {})]
    said = face.ask(Ask(inputs, model="all", outputs=outputs))
    assert [output[0] for output in said.outputs] == ["FP64", "BOOL"]


def x(**changes: Any) -> In:
    """The input of `pairs`, but for what is changed."""
    whole = {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": RAW, **changes}
    return In(**whole)


GOOD = [
    Ask([x()]),
    Ask([x()], version="1"),
    Ask([x()], id="é"),
    Ask([x()], parameters={"timeout": 5_000_000, "priority": 1, "triton_other": "x"}),
    Ask([x()], parameters={"sequence_id": 0}),
    Ask([x()], headers={"X-Priority": "low", "X-Timeout-Ms": "5000"}),
    Ask([x(shape=[0, 2], data=b"")]),
    Ask([x(parameters={"other": 1.5})]),
]
BAD = [
    (Ask([]), "the input 'x' is missing"),
    (Ask([x(), x()]), "given twice"),
    (Ask([x(name="y")]), "there is no input 'y'"),
    (Ask([x(datatype="FP33")]), "unknown datatype 'FP33'"),
    (Ask([x(datatype="INT32")]), "its datatype is FP32"),
    (Ask([x(shape=[4])]), "must be of shape"),
    (Ask([x(shape=[-2, 2])]), "must be of shape"),
    (Ask([x(shape=[2**62, 2])]), "beyond all bounds"),
    (Ask([x(shape=[1] * 1000)]), "1000 axes"),
    (Ask([x(shape=[])]), "must be of shape"),
    (Ask([x(data=RAW[:12])]), "is of 16 bytes"),
    (Ask([x(data=RAW + b"1234")]), "is of 16 bytes"),
    (Ask([x(data=None)]), "neither"),
    (Ask([x(parameters={"shared_memory_region": "r"})]), "shared_memory_region"),
    (Ask([x()], outputs=[("potato", {})]), "no output 'potato'"),
    (Ask([x()], outputs=[("x", {}), ("x", {})]), "asked for twice"),
    (Ask([x()], outputs=[("x", {"classification": 1})]), "classification"),
    (Ask([x()], outputs=[("x", {"shared_memory_region": "r"})]), "shared_memory_region"),
    (Ask([x()], parameters={"timeout": -1}), "timeout"),
    (Ask([x()], parameters={"timeout": 2**60}), "beyond all bounds"),
    (Ask([x()], parameters={"priority": "high"}), "priority"),
    (Ask([x()], parameters={"sequence_id": 7}), "sequence_id"),
    (Ask([x()], parameters={"sequence_id": "s"}), "sequence_id"),
    (Ask([x()], headers={"X-Timeout-Ms": "soon"}), "X-Timeout-Ms"),
    (Ask([x()], headers={"X-Priority": "7"}), "X-Priority"),
    (Ask([x()], model="undeclared"), "declares no tensors"),
    (Ask([x()], model="objects"), "declares no tensors"),
    (Ask([In("to", "INT32", [1], b"\x03\0\0\0")], model="count"), "value by value"),
    (Ask([In("text", "BYTES", [3], b"\xff\xff\xff\xff" + TEXTS[4:])], model="texts"), "4294967295"),
    (Ask([In("text", "BYTES", [3], TEXTS + b"\0")], model="texts"), "is cut off"),
    (Ask([In("text", "BYTES", [2], TEXTS)], model="texts"), "is of 2 elements, not 3"),
    (Ask([In("text", "BYTES", [2**40], TEXTS)], model="texts"), "do not fit"),
]


@pytest.mark.parametrize("ask", GOOD, ids=lambda ask: repr(ask)[:80])
def test_what_is_right(face: Face, ask: Ask) -> None:
    said = face.ask(ask)
    assert said.code == "OK", said.text
    (given,) = ask.inputs
    assert said.outputs == (("x", "FP32", tuple(given.shape), given.data),)
    assert said.id == (ask.id or "")


@pytest.mark.parametrize(("ask", "words"), BAD, ids=lambda given: repr(given)[:80])
def test_what_is_wrong_is_named(face: Face, ask: Ask, words: str) -> None:
    said = face.ask(ask)
    assert said.code == "INVALID_ARGUMENT", said
    assert words in said.text


@pytest.mark.parametrize(
    ("ask", "code", "words"),
    [
        (Ask([x()], model="nobody"), "NOT_FOUND", "nobody"),
        (Ask([x()], version="9"), "NOT_FOUND", "version"),
        (Ask([x()], parameters={"timeout": 1}), "DEADLINE_EXCEEDED", "deadline"),
        (
            Ask([In("image", "FP32", [1, 2, 2], struct.pack("<4f", *[-1.0] * 4))], model="sum"),
            "INTERNAL",
            "the worker failed on this item",
        ),
        (
            Ask(
                [In("seconds", "FP32", [1], struct.pack("<f", 0.4))],
                model="slow",
                headers={"X-Timeout-Ms": "50"},
            ),
            "DEADLINE_EXCEEDED",
            "",
        ),
    ],
    ids=lambda given: repr(given)[:60],
)
def test_what_fails(face: Face, ask: Ask, code: str, words: str) -> None:
    said = face.ask(ask)
    assert said.code in (code, "UNAVAILABLE" if ask.model == "slow" else code)
    assert words in said.text


def test_requests_are_known_by_their_id_and_counted(face: Face, client: Client) -> None:
    before = counted(client, "pairs", 200), counted(client, "pairs", 400)
    said = face.ask(Ask([x()], headers={"X-Request-Id": "mine", "traceparent": "00-1-2-3"}))
    assert said.headers["x-request-id"] == "mine"
    said = face.ask(Ask([x(shape=[4])], headers={"X-Request-Id": "mine"}))
    assert said.headers["x-request-id"] == "mine"
    after = counted(client, "pairs", 200), counted(client, "pairs", 400)
    assert after == (before[0] + 1, before[1] + 1)


def test_the_repository_index_heeds_what_is_asked(client: Client, rpc: Rpc) -> None:
    from tritonclient.grpc import service_pb2  # noqa: PLC0415

    everything = client.post("/v2/repository/index", b"{}").json()
    ready = client.post("/v2/repository/index", json.dumps({"ready": True}).encode()).json()
    assert everything == ready == client.post("/v2/repository/index").json()
    for wrong in (b"{", b"[]", b'{"ready": 1}'):
        answer = client.post("/v2/repository/index", wrong)
        assert (answer.status, set(answer.json())) == (400, {"error"})
    asked = rpc.stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(ready=True))
    assert {each.name for each in asked.models} == {each["name"] for each in ready}
