"""Nested lists to the bytes of tensors and back."""

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import Mismatch
from broker.payload.nested import (
    flatten,
    join_elements,
    nest,
    pack_elements,
    split_elements,
    unpack_elements,
)

INTEGERS = [name for name, kind in DATATYPES.items() if kind.python == {int}]
SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=4)


@given(st.lists(st.integers(0, 4), max_size=4))
def test_there_and_back(shape: list[int]) -> None:
    elements = list(range(int(np.prod(shape))))
    assert nest(elements, shape) == np.reshape(elements, shape).tolist()
    if 0 not in shape:
        assert flatten(nest(elements, shape), shape, "$", may_be_flat=False) == (elements, shape)


def test_flat_where_it_may_not_be() -> None:
    for value, shape in (([1, 2], [1, 2]), ([1, 2], [-1, 1]), ([], [0, 2])):
        flatten(value, shape, "$")
    with pytest.raises(Mismatch, match=r"expected an array, got int - at `\$\[0\]`"):
        flatten([1, 2], [-1, 1], "$", may_be_flat=False)
    assert flatten([], [-1, 2], "$", may_be_flat=False) == ([], [0, 2])
    assert flatten([1], [], "$", may_be_flat=False) == ([[1]], [])


@given(SHAPES, st.data())
def test_nested_and_flat_are_the_same(shape: list[int], data: st.DataObject) -> None:
    elements = list(range(int(np.prod(shape))))
    pattern = [data.draw(st.sampled_from([length, -1])) for length in shape]
    if 0 not in shape:  # else the lists cannot tell
        assert flatten(nest(elements, shape), pattern, "$") == (elements, shape)
        if pattern.count(-1) < 2:
            assert flatten(elements, pattern, "$") == (elements, shape)
    assert flatten(nest(elements, shape), shape, "$") == (elements, shape)


@pytest.mark.parametrize(
    ("value", "shape", "words"),
    [
        (1, [-1], "expected an array, got int - at `$`"),
        ({}, [-1], "got object"),
        ([1, 2, 3], [2], "expected 2 elements, got 3 - at `$`"),
        ([[1], [1, 2]], [-1, -1], "expected 1 elements, got 2 - at `$[1]`"),
        ([[[1]], [[1], [2]]], [2, 1, 1], "at `$[1]`"),
        ([[[1]], [1]], [2, 1, 1], "expected an array, got int - at `$[1][0]`"),
        ([1, 2, 3], [2, -1], "expected a multiple of 2 elements"),
        ([1, 2], [-1, -1], "expected arrays nested"),
        ([1], [-1, 0], "expected no elements"),
        ([1], [0, 2], "expected 0 elements"),
    ],
)
def test_what_has_another_shape(value: Any, shape: list[int], words: str) -> None:
    with pytest.raises(Mismatch) as caught:
        flatten(value, shape, "$")
    assert words in str(caught.value)


def test_scalars() -> None:
    assert flatten(3, [], "$") == ([3], [])
    assert flatten([3], [], "$") == ([3], [])


@given(st.sampled_from(INTEGERS), st.data())
def test_integers(datatype: str, data: st.DataObject) -> None:
    info = np.iinfo(np.dtype(f"<{DATATYPES[datatype].code}"))
    elements = data.draw(st.lists(st.integers(int(info.min), int(info.max)), max_size=20))
    packed = pack_elements(elements, datatype, [len(elements)], "$")
    assert packed == np.array(elements, info.dtype).tobytes()
    assert unpack_elements(packed, datatype) == elements
    for beyond in (int(info.min) - 1, int(info.max) + 1):
        with pytest.raises(Mismatch, match=r"beyond the range of .* at `\$\[1\]`"):
            pack_elements([0, beyond], datatype, [2], "$")


@pytest.mark.parametrize(("datatype", "width"), [("FP16", 16), ("FP32", 32), ("FP64", 64)])
def test_floats(datatype: str, width: int) -> None:
    @given(st.lists(st.floats(width=width, allow_nan=False), max_size=20))  # type: ignore[arg-type]
    def check(elements: list[float]) -> None:
        packed = pack_elements(elements, datatype, [len(elements)], "$")
        assert unpack_elements(packed, datatype) == elements

    check()


@given(st.lists(st.integers(0, 0xFFFF), max_size=20))
def test_halves_of_floats(words: list[int]) -> None:
    data = struct.pack(f"<{len(words)}H", *words)
    values = unpack_elements(data, "BF16")
    assert values == pytest.approx(
        [struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in words],
        nan_ok=True,
        rel=0,
    )
    if not any(map(math.isnan, values)):
        assert pack_elements(values, "BF16", [len(words)], "$") == data


@given(st.lists(st.text(max_size=5), max_size=10))
def test_texts(texts: list[str]) -> None:
    packed = pack_elements(list(texts), "BYTES", [len(texts)], "$")
    assert unpack_elements(packed, "BYTES") == texts
    assert packed == join_elements([text.encode() for text in texts])


@given(st.binary(max_size=40))
def test_lengths_that_lie(data: bytes) -> None:
    try:
        elements = split_elements(data)
    except ValueError:
        return
    assert join_elements([bytes(element) for element in elements]) == data


@pytest.mark.parametrize(
    ("datatype", "element"),
    [("BOOL", 1), ("INT8", True), ("INT8", 1.0), ("FP32", True), ("FP32", "1"), ("BYTES", 1)],
)
def test_elements_of_another_type(datatype: str, element: Any) -> None:
    good: Any = {"BOOL": True, "BYTES": b""}.get(datatype, 0)
    with pytest.raises(Mismatch, match=rf"expected {datatype}, got .* at `\$\[0\]\[1\]`"):
        pack_elements([good, element], datatype, [1, 2], "$")
