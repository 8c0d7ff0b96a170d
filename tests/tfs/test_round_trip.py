"""What is sent comes back from an echo: every datatype and shape, in rows and in columns."""

import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.system.client import Client
from tests.system.deployment import Deployment

pytestmark = pytest.mark.system

Strategy = st.SearchStrategy[Any]


def integers(bits: int, *, signed: bool) -> Strategy:
    least = -(1 << bits - 1) if signed else 0
    return st.integers(least, least + (1 << bits) - 1)


def brain_floats() -> Strategy:
    words = st.integers(0, 0xFFFF)
    return words.map(lambda word: struct.unpack("<f", struct.pack("<I", word << 16))[0])


def as_base64(data: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(data).decode()}


VALUES: dict[str, Strategy] = {
    "BOOL": st.booleans(),
    **{f"UINT{bits}": integers(bits, signed=False) for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": integers(bits, signed=True) for bits in (8, 16, 32, 64)},
    "FP16": st.floats(width=16),
    "FP32": st.floats(width=32),
    "FP64": st.floats(width=64),
    "BF16": brain_floats(),
    "BYTES": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "any_bytes": st.binary(max_size=5).map(as_base64),
}
MODELS = {"scalars": 0, "vectors": 1, "matrices": 2, "cubes": 3}


def nested(values: Strategy, shape: list[int]) -> Strategy:
    for length in reversed(shape):
        values = st.lists(values, min_size=length, max_size=length)
    return values


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A model, and its inputs by name, all of one shape."""
    model, axes = draw(st.sampled_from(sorted(MODELS.items())))
    shape = [draw(st.integers(1, 3)) for _ in range(axes)]
    if axes == 3:
        shape[2] = 2
    return model, {name: draw(nested(values, shape)) for name, values in VALUES.items()}


def same(one: Any, other: Any) -> bool:
    """NaN is itself here, and zeros have signs; an integer is no float."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(sent=tensors())
def test_it_comes_back(mill: Deployment, sent: tuple[str, dict[str, Any]]) -> None:
    model, inputs = sent
    with mill.client() as client:
        assert_same(post(client, model, {"inputs": inputs})["outputs"], inputs)
        if MODELS[model]:
            rows = [
                dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)
            ]
            assert_same(post(client, model, {"instances": rows})["predictions"], rows)


def post(client: Client, model: str, body: Any) -> Any:
    answer = client.post(f"/v1/models/{model}:predict", json.dumps(body).encode())
    assert answer.status == 200, answer.body
    return answer.json()


def assert_same(got: Any, expected: Any) -> None:
    assert same(got, expected), f"{got} is not {expected}"
