"""What items are, in words; how they differ; and others like them."""

from typing import Any

import numpy as np
import pytest

from broker.payload.signature import TensorSpec
from millstream.check.items import (
    between_specs,
    companion,
    described,
    from_example,
    from_tensors,
    zeros_of,
)

F32 = np.zeros((8, 8), np.float32)
F64 = np.zeros((8, 8))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (F32, "float32[8, 8]"),
        (np.float64(1), "float64[]"),
        ({"x": F32, "n": 1}, "{x: float32[8, 8], n: int}"),
        ([F32, F32], "list[2] of float32[8, 8]"),
        ((), "tuple[0]"),
        (None, "None"),
        ("text", "str"),
        ([[[[1]]]], "list[1] of list[1] of list[1]"),
    ],
)
def test_in_words(value: Any, words: str) -> None:
    assert described(value) == words


@pytest.mark.parametrize(
    ("item", "example", "found"),
    [
        (F32, F32, []),
        (F64, F32, [("", "float64[8, 8]", "float32[8, 8]", True)]),
        (F32[0], F32, [("", "float32[8]", "float32[8, 8]", True)]),
        (F32[:4], F32, [("", "float32[4, 8]", "float32[8, 8]", False)]),
        ({"x": F64}, {"x": F32}, [("['x']", "float64[8, 8]", "float32[8, 8]", True)]),
        ({}, {"x": F32}, [("['x']", "nothing", "float32[8, 8]", True)]),
        ({"x": F32, "more": 1}, {"x": F32}, []),
        ([F64], [F32], [("[0]", "float64[8, 8]", "float32[8, 8]", True)]),
        ([], [F32], []),
        (1, 2.0, []),
        (True, 1, []),
        ("a", b"a", [("", "str", "bytes", True)]),
        ("a", None, []),
        ([1.0], F32, [("", "list[1] of float", "float32[8, 8]", False)]),
        ({"x": 1}, F32, [("", "{x: int}", "float32[8, 8]", True)]),
    ],
)
def test_an_item_and_an_example(item: Any, example: Any, found: list[Any]) -> None:
    assert list(from_example(item, example)) == found


def spec(datatype: str, *shape: int, name: str = "x") -> TensorSpec:
    return TensorSpec(name, datatype, shape)


@pytest.mark.parametrize(
    ("item", "declared", "found"),
    [
        ({"x": F32}, spec("FP32", -1, 8), []),
        (F32, spec("FP32", 8, 8), []),
        ({"x": F64}, spec("FP32", -1, 8), [("['x']", "float64[8, 8]", "FP32[-1, 8]", True)]),
        ({"x": F32}, spec("FP32", -1), [("['x']", "float32[8, 8]", "FP32[-1]", True)]),
        ({"x": F32}, spec("BF16", -1, 8), []),
        ({"x": np.array([b"a"], object)}, spec("BYTES", -1), []),
        ({"x": np.zeros(3, np.int64)}, spec("INT64", 3), []),
        ({"x": np.zeros(3, ">i8")}, spec("INT64", 3), []),
        ({"y": F32}, spec("FP32", 8, 8), [("['x']", "nothing", "FP32[8, 8]", True)]),
        ("text", spec("FP32", 8), [("['x']", "str", "FP32[8]", True)]),
    ],
)
def test_an_item_and_declared_tensors(item: Any, declared: TensorSpec, found: list[Any]) -> None:
    assert list(from_tensors(item, [declared])) == found


def test_what_is_declared_on_both_sides() -> None:
    outputs = [spec("FP32", -1, 8), spec("INT64", name="n")]
    assert list(between_specs(outputs, [spec("FP32", 4, -1)])) == []
    (type_,) = between_specs(outputs, [spec("FP64", -1, 8)])
    assert type_ == ("['x']", "FP32[-1, 8]", "FP64[-1, 8]", True)
    (missing,) = between_specs(outputs, [spec("FP32", name="y")])
    assert missing == ("['y']", "nothing", "FP32[]", True)


@pytest.mark.parametrize(
    "item",
    [
        F32,
        F64,
        np.array(2, np.float32),
        np.zeros(3, np.uint8),
        np.arange(9, dtype=">i4").reshape(3, 3),
        np.array([True, False]),
        np.zeros((0, 4), np.int64),
    ],
)
def test_company_is_of_the_same_kind(item: Any) -> None:
    other = companion(item, 1)
    assert (other.dtype, other.shape) == (item.dtype, item.shape)
    both = companion({"x": item, "name": "ab"}, 1)
    assert both["x"].dtype == item.dtype
    assert both["name"] == "ba"


def test_company_that_nobody_knows() -> None:
    thing = object()
    assert companion(thing, 0) is thing


def test_zeros_of_what_is_declared() -> None:
    zeros = zeros_of([spec("FP32", -1, 3), spec("BYTES", -1, name="b"), spec("BF16", 2, name="h")])
    assert described(zeros) == "{x: float32[1, 3], b: object[1], h: float32[2]}"
