"""Tensors to numpy arrays and back."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import BadBody, BadPayload, Mismatch
from broker.payload.signature import TensorSpec
from broker.payload.tensor_arrays import (
    WrongOutput,
    array_of_part,
    arrays_of_object,
    arrays_of_parts,
    parts_of_result,
)
from broker.payload.tensor_bodies import TensorPart, pack_tensors, unpack_tensors

NUMBERS = [name for name, kind in DATATYPES.items() if kind.code]
SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


def spec(datatype: str, *shape: int) -> TensorSpec:
    return TensorSpec("x", datatype, shape)


def there_and_back(array: Any, declared: TensorSpec) -> Any:
    """An array as a result, packed, unpacked and read as a request."""
    body, buffers = pack_tensors(parts_of_result({"x": array}, [declared]))
    return arrays_of_parts(unpack_tensors(body, buffers), [declared])["x"]


@given(st.sampled_from(NUMBERS), SHAPES, st.data())
def test_numbers(datatype: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    dtype = np.dtype(f"<{DATATYPES[datatype].code}")
    array = data.draw(arrays_of.arrays(dtype, shape))
    got = there_and_back(array, spec(datatype, *[-1] * len(shape)))
    assert (got.shape, got.dtype) == (shape, dtype)
    assert got.tobytes() == array.tobytes()
    assert not got.flags.writeable or not got.size


@given(SHAPES, st.data())
def test_texts(shape: tuple[int, ...], data: st.DataObject) -> None:
    array = data.draw(arrays_of.arrays(object, shape, elements=st.binary(max_size=6)))
    got = there_and_back(array, spec("BYTES", *[-1] * len(shape)))
    assert got.shape == shape
    assert got.tolist() == array.tolist()


def test_large_values_travel_as_they_lie() -> None:
    array = np.arange(10_000, dtype=np.float32)
    body, buffers = pack_tensors(parts_of_result({"x": array}, [spec("FP32", -1)]))
    assert len(body) < 100
    (got,) = unpack_tensors(body, buffers)
    assert np.shares_memory(array, array_of_part(got))


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_halves_are_rounded_to_the_nearest(values: list[float]) -> None:
    array = np.array(values, np.float32)
    got = there_and_back(array, spec("BF16", -1))
    assert np.array_equal(np.isnan(got), np.isnan(array))
    exact = there_and_back(got, spec("BF16", -1))
    assert exact.tobytes() == got.tobytes()
    finite = np.isfinite(array) & np.isfinite(got)
    error = np.abs(got[finite].astype(np.float64) - array[finite])
    assert np.all(error <= np.abs(array[finite].astype(np.float64)) / 256 + 1e-40)


@pytest.mark.parametrize(
    "value",
    [[1.5, 2.0], (1, 2), np.array([1, 2], np.int64), np.array([1.5, 2.0], ">f8")],
    ids=str,
)
def test_what_becomes_fp32(value: Any) -> None:
    assert there_and_back(value, spec("FP32", 2)).tolist() == list(value)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1.5, 2.0], requires_grad=True)
    assert there_and_back(tensor, spec("FP32", 2)).tolist() == [1.5, 2.0]
    assert there_and_back(tensor.bfloat16(), spec("BF16", 2)).tolist() == [1.5, 2.0]


def test_an_array_alone() -> None:
    (part,) = parts_of_result(np.zeros(2, np.float32), [spec("FP32", -1)])
    assert (part.name, part.shape) == ("x", [2])
    with pytest.raises(WrongOutput, match="a dict of outputs"):
        parts_of_result(np.zeros(2), [spec("FP32", -1), TensorSpec("y", "FP32", (2,))])


@pytest.mark.parametrize(
    ("result", "declared", "words"),
    [
        ({"y": [1]}, spec("FP32", -1), "declared, not"),
        ({"x": [1.5]}, spec("INT32", -1), "is INT32, not float64"),
        ({"x": [[1]]}, spec("INT32", -1), "must be of shape"),
        ({"x": [1, 2]}, spec("INT32", 3), "must be of shape"),
        ({"x": [1]}, spec("BYTES", -1), "holds int"),
        ({"x": ["a"]}, spec("FP32", -1), "not <U1"),
    ],
)
def test_what_is_not_as_declared(result: Any, declared: TensorSpec, words: str) -> None:
    with pytest.raises(WrongOutput) as caught:
        parts_of_result(result, [declared])
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (TensorPart("x", "FP32", [2], b"1234"), "is of 8 bytes, not 4"),
        (TensorPart("x", "BOOL", [2], b"\x00\x02"), "a BOOL is 0 or 1"),
        (TensorPart("x", "BYTES", [2], b"\0\0\0\0"), "is of 2 elements, not 1"),
        (TensorPart("x", "BYTES", [1], b"\x01\0\0\0"), "where 0 are left"),
        (TensorPart("x", "BYTES", [1], b"\x01\0"), "cut off"),
    ],
)
def test_bytes_that_are_no_such_tensor(part: TensorPart, words: str) -> None:
    with pytest.raises(BadBody, match=words):
        array_of_part(part)


@pytest.mark.parametrize("shape", [[1 << 40, 0], [0, 1 << 40], [1 << 47, 0, 2]])
def test_huge_shapes_of_nothing(shape: list[int]) -> None:
    declared = spec("FP64", *[-1] * len(shape))
    part = TensorPart("x", "FP64", shape, b"")
    assert arrays_of_parts([part], [declared])["x"].shape == tuple(shape)
    with pytest.raises(Mismatch, match="beyond all bounds"):
        arrays_of_parts([TensorPart("x", "FP64", [*shape[:-1], 1 << 60, 0], b"")], [
            spec("FP64", *[-1] * (len(shape) + 1))
        ])  # fmt: skip


@given(st.binary(max_size=60), st.lists(st.binary(max_size=8), max_size=3))
def test_whatever_the_bytes_are(body: bytes, buffers: list[bytes]) -> None:
    try:
        parts = unpack_tensors(body, buffers)
        arrays_of_parts(parts, [spec("FP32", -1)])
    except (BadPayload, BadBody, Mismatch):
        return
    assert [part.name for part in parts] == ["x"]


def test_objects() -> None:
    declared = [spec("INT16", -1, 2), TensorSpec("y", "BYTES", ())]
    arrays = arrays_of_object({"x": [[1, 2]], "y": "é"}, declared)
    assert arrays["x"].tolist() == [[1, 2]]
    assert arrays["y"].tolist() == "é".encode()
    with pytest.raises(Mismatch, match="'y' is missing"):
        arrays_of_object({"x": [[1, 2]]}, declared)
