"""What plug-ins declare, and what of it is refused."""

from typing import Any

import msgspec
import pytest

from broker.payload.signature import Declared, TensorSpec, decode_signature
from workers.api import Tensor, Worker
from workers.checks import ContractError, shape_of


class Body(msgspec.Struct):
    """An object."""

    x: int


def plugin(inputs: Any = None, outputs: Any = None) -> Worker:
    made = Worker()
    made.inputs, made.outputs = inputs, outputs
    return made


def test_nothing() -> None:
    shape = shape_of(plugin())
    assert (shape.inputs, shape.outputs, shape.signature) == (None, None, b"")


def test_tensors() -> None:
    shape = shape_of(plugin({"x": Tensor("FP32", [-1, 2])}, {"y": Tensor("BYTES", ())}))
    assert shape.inputs == (TensorSpec("x", "FP32", (-1, 2)),)
    signature = decode_signature(shape.signature)
    assert signature.inputs == Declared([TensorSpec("x", "FP32", (-1, 2))])
    assert signature.outputs == Declared([TensorSpec("y", "BYTES", ())])


def test_types() -> None:
    shape = shape_of(plugin(Body, list[float]))
    assert shape.inputs is Body
    signature = decode_signature(shape.signature)
    assert msgspec.json.decode(signature.outputs.schema)["type"] == "array"


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "must name 1 to"),
        (Tensor("FP32", [1]), "must be a dict"),
        ({"x": [1, 2]}, "must be a millstream.Tensor"),
        ({1: Tensor("FP32", [1])}, "no name of a tensor"),
        ({"": Tensor("FP32", [1])}, "no name of a tensor"),
        ({"a\nb": Tensor("FP32", [1])}, "no name of a tensor"),
        ({"x": Tensor("float32", [1])}, "'float32' is no datatype; known: BOOL"),
        ({"x": Tensor("FP32", [-2])}, "a shape is a list of lengths"),
        ({"x": Tensor("FP32", [True])}, "a shape is a list of lengths"),
        ({"x": Tensor("FP32", 3)}, "a shape is a list of lengths"),  # type: ignore[arg-type]
        ({"x": Tensor("FP32", [1] * 33)}, "a shape is a list of lengths"),
        (complex, "a type that msgspec can check"),
        (3, "a type that msgspec can check"),
    ],
    ids=str,
)
def test_what_is_refused(inputs: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        shape_of(plugin(inputs))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
