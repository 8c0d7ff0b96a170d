"""Bodies of this protocol to tensors, and results to bodies."""

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from broker.payload.datatypes import DATATYPES
from broker.payload.media_types import BYTES_TYPE
from broker.payload.signature import Declared, TensorSpec
from broker.payload.tensor_bodies import TensorPart
from gateway.dialect import BadRequest
from gateway.oip.answers import write_answer
from gateway.oip.inference import Inference, Wanted
from gateway.oip.requests import json_bytes, read_request

NUMBERS = [name for name, kind in DATATYPES.items() if kind.code]


def declared(datatype: str, axes: int) -> Declared:
    return Declared([TensorSpec("x", datatype, (-1,) * axes)])


def request(datatype: str, array: Any, *, binary: bool) -> tuple[bytes, list[str]]:
    """A body with one tensor, and its header."""
    tensor: dict[str, Any] = {"name": "x", "datatype": datatype, "shape": array.shape}
    if binary:
        tensor["parameters"] = {"binary_data_size": array.nbytes}
    else:
        tensor["data"] = array.tolist()
    text = json.dumps({"id": "7", "inputs": [tensor]}).encode()
    return (text + array.tobytes(), [str(len(text))]) if binary else (text, [])


@given(
    st.sampled_from(NUMBERS),
    arrays_of.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4),
    st.booleans(),
    st.data(),
)
def test_there_and_back(
    datatype: str, shape: tuple[int, ...], binary: bool, data: st.DataObject
) -> None:
    dtype = np.dtype(f"<{DATATYPES[datatype].code}")
    elements = arrays_of.from_dtype(dtype, allow_nan=False, allow_infinity=False)
    array = data.draw(arrays_of.arrays(dtype, shape, elements=elements))
    side = declared(datatype, len(shape))
    body, header = request(datatype, array, binary=binary)
    inference = read_request(body, header, side, side)
    (tensor,) = inference.inputs
    values = body[tensor.start : tensor.end] if tensor.data is None else tensor.data
    assert values == array.tobytes()
    part = TensorPart("x", datatype, tensor.shape, values)
    plain = write_answer(inference, [part], model="m", version="1")
    answer = json.loads(bytes(plain.pieces[0]))
    assert (answer["id"], answer["outputs"][0]["shape"]) == ("7", list(shape))
    assert np.array(answer["outputs"][0]["data"], dtype).tobytes() == values


def test_outputs_are_written_as_they_are_wanted() -> None:
    parts = [TensorPart("a", "INT8", [2], b"\1\2"), TensorPart("b", "BYTES", [1], b"\1\0\0\0c")]
    wanted = [Wanted("b", is_binary=True), Wanted("a", is_binary=False)]
    written = write_answer(Inference(None, [], wanted), parts, model="m", version="v")
    assert written.content_type == BYTES_TYPE
    assert written.json_bytes == len(written.pieces[0])
    assert json.loads(bytes(written.pieces[0])) == {
        "model_name": "m",
        "model_version": "v",
        "outputs": [
            {"name": "b", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}},
            {"name": "a", "datatype": "INT8", "shape": [2], "data": [1, 2]},
        ],
    }
    assert written.pieces[1] is parts[1].data


def test_numbers_that_json_lacks_are_null() -> None:
    values = np.array([np.nan, np.inf, 1.0], "<f4").tobytes()
    inference = Inference(None, [], [Wanted("x", is_binary=False)])
    written = write_answer(
        inference, [TensorPart("x", "FP32", [3], values)], model="m", version="1"
    )
    assert json.loads(bytes(written.pieces[0]))["outputs"][0]["data"] == [None, None, 1.0]


@pytest.mark.parametrize(
    ("shape", "body_bytes", "found"),
    [((-1, 2), 16, [2, 2]), ((2, 2), 16, [2, 2]), ((-1,), 0, [0]), ((), 4, [])],
)
def test_raw_requests(shape: tuple[int, ...], body_bytes: int, found: list[int]) -> None:
    side = Declared([TensorSpec("x", "FP32", shape)])
    inference = read_request(bytes(body_bytes), ["0"], side, side)
    (tensor,) = inference.inputs
    assert (tensor.shape, tensor.start, tensor.end) == (found, 0, body_bytes)
    assert inference.outputs == [Wanted("x", is_binary=True)]


@pytest.mark.parametrize(("shape", "size"), [((2, 2), 12), ((-1, 2), 12), ((-1, -1), 16)])
def test_raw_requests_that_do_not_fit(shape: tuple[int, ...], size: int) -> None:
    side = Declared([TensorSpec("x", "FP32", shape)])
    with pytest.raises(BadRequest):
        read_request(bytes(size), ["0"], side, side)


def test_any_change_of_a_request_is_read_or_refused() -> None:
    """Nothing but BadRequest comes out of it, and nothing lies outside the body."""
    rng = random.Random(4)
    side = Declared([TensorSpec("x", "FP32", (-1, 2)), TensorSpec("y", "BYTES", (-1,))])
    parts = b"\0" * 16 + b"\1\0\0\0a"
    text = json.dumps(
        {
            "id": "a",
            "parameters": {"timeout": 5, "priority": 1, "binary_data_output": True},
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [2, 2],
                 "parameters": {"binary_data_size": 16}},
                {"name": "y", "datatype": "BYTES", "shape": [1],
                 "parameters": {"binary_data_size": 5}},
            ],
            "outputs": [{"name": "x", "parameters": {"binary_data": False}}],
        }
    ).encode()  # fmt: skip
    assert read_request(text + parts, [str(len(text))], side, side).timeout_s == 5e-6
    read = 0
    for _ in range(3000):
        changed = bytearray(text)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(changed))
            new = rng.choice([b"", b"0", b"-1", b"[", b"]", b"}", b'"', b"9" * 19, b"null", b"."])
            changed[at : at + rng.randint(0, 2)] = new
        body = bytes(changed) + parts[: rng.randint(0, len(parts))]
        length = rng.choice([len(changed), len(changed), len(text), rng.randint(0, 600)])
        try:
            inference = read_request(body, [str(length)], side, side)
        except BadRequest:
            continue
        read += 1
        assert all(each.end <= len(body) for each in inference.inputs)
    assert read


@pytest.mark.parametrize("values", [["5", "5"], ["+5"], ["5.0"], ["٥"], ["11"]])
def test_lengths_that_are_none(values: list[str]) -> None:
    assert json_bytes([" 5 "], 10) == 5
    assert json_bytes([], 10) == 10
    with pytest.raises(BadRequest, match="Inference-Header-Content-Length"):
        json_bytes(values, 10)
