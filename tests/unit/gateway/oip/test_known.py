"""Requests that come again with other values."""

import json
from typing import Any

import pytest

from broker.payload.signature import Declared, TensorSpec
from broker.payload.tensor_bodies import TensorPart, pack_tensors
from gateway.dialect import BadRequest, Input
from gateway.oip.known import MAX_KNOWN, MAX_KNOWN_BYTES, KnownRequests
from gateway.oip.requests import read_request

SIDE = Declared([TensorSpec("x", "UINT8", (-1,))])
SIZE = 5000
"""Of the values: too large to stand inline."""


def text(size: int = SIZE, **more: Any) -> bytes:
    tensor = {
        "name": "x",
        "datatype": "UINT8",
        "shape": [size],
        "parameters": {"binary_data_size": size},
    }
    return json.dumps({"inputs": [tensor], **more}).encode()


def keep(known: KnownRequests, json_text: bytes, values: bytes = bytes(SIZE)) -> bytes:
    """The body, which has been read and may be remembered."""
    body = json_text + values
    inference = read_request(body, [str(len(json_text))], SIDE, SIDE)
    known.keep(body, len(json_text), inference)
    return body


def test_the_same_json_before_other_values() -> None:
    known = KnownRequests()
    json_text = text(parameters={"timeout": 5})
    keep(known, json_text)
    found = known.find(json_text + b"\1" * SIZE, len(json_text))
    assert found is not None
    end = len(json_text)
    assert found.request.inputs == [Input("x", "UINT8", [SIZE], None, end, end + SIZE)]
    assert found.request.timeout_s == 5e-6
    names, _ = pack_tensors([TensorPart("x", "UINT8", [SIZE], bytes(SIZE))])
    assert found.request.names == names


@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 1])
def test_another_number_of_values_is_another_request(size: int) -> None:
    known = KnownRequests()
    json_text = text()
    keep(known, json_text)
    body = json_text + bytes(size)
    assert known.find(body, len(json_text)) is None
    with pytest.raises(BadRequest):
        read_request(body, [str(len(json_text))], SIDE, SIDE)


def test_the_same_values_behind_other_json() -> None:
    known = KnownRequests()
    keep(known, text())
    other = text(outputs=[{"name": "x"}])
    assert known.find(other + bytes(SIZE), len(other)) is None


@pytest.mark.parametrize(
    ("json_text", "values"),
    [
        (text(id="7"), bytes(SIZE)),
        (text(parameters={"note": "x" * MAX_KNOWN_BYTES}), bytes(SIZE)),
        (b'{"inputs":[{"name":"x","datatype":"UINT8","shape":[2],"data":[1,2]}]}', b""),
    ],
    ids=["id", "long", "values"],
)
def test_what_is_not_remembered(json_text: bytes, values: bytes) -> None:
    known = KnownRequests()
    body = keep(known, json_text, values)
    assert known.find(body, len(json_text)) is None


def test_a_body_that_is_values_alone_is_not_remembered() -> None:
    known = KnownRequests()
    body = bytes(SIZE)
    known.keep(body, 0, read_request(body, ["0"], SIDE, SIDE))
    assert known.find(body, 0) is None


def test_what_is_remembered_is_bounded() -> None:
    known = KnownRequests()
    bodies = [keep(known, text(number), bytes(number)) for number in range(1, MAX_KNOWN + 2)]
    kept = [body for body in bodies if known.find(body, body.index(b"\0")) is not None]
    assert kept == bodies[-1:]
