"""What plug-ins declare, and what of it is refused."""

from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import msgspec
import pytest

from broker.payload.signature import Declared, Method, TensorSpec, decode_signature
from workers.api import Classify, Regress, Tensor, Worker
from workers.checks import ContractError, shape_of


class Body(msgspec.Struct):
    """An object."""

    x: int


def plugin(inputs: Any = None, outputs: Any = None, signatures: Any = None) -> Worker:
    made = Worker()
    made.inputs, made.outputs, made.signatures = inputs, outputs, signatures
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


OUTPUTS = {
    "scores": Tensor("FP32", [-1, 2]),
    "names": Tensor("BYTES", [-1, 2]),
    "value": Tensor("INT8", [-1, 1]),
}


def test_signatures() -> None:
    signatures = {
        "a": Classify("scores", labels="names"),
        "b": Classify("scores", labels=("x", "y")),
        "c": Classify("scores"),
        "d": Regress("value"),
    }
    signature = decode_signature(shape_of(plugin(None, OUTPUTS, signatures)).signature)
    assert signature.methods == [
        Method("a", "classify", "scores", "names"),
        Method("b", "classify", "scores", labels=["x", "y"]),
        Method("c", "classify", "scores"),
        Method("d", "regress", "value"),
    ]


@pytest.mark.parametrize(
    ("signatures", "words"),
    [
        ([], "must be a dict of Classify and Regress"),
        ({}, "must be a dict of Classify and Regress"),
        ({"a": "scores"}, "must be a millstream.Classify or Regress"),
        ({1: Regress("value")}, "no name of a signature"),
        ({"serving_default": Regress("value")}, "for the outputs as they are"),
        ({"a": Regress("no such")}, "'no such' is none of the outputs"),
        ({"a": Regress(["value"])}, "is none of the outputs"),  # type: ignore[arg-type]
        ({"a": Regress("scores")}, "one number for each example"),
        ({"a": Regress("names")}, "one number for each example"),
        ({"a": Classify("value")}, "floats of shape [examples, classes]"),
        ({"a": Classify("names")}, "floats of shape [examples, classes]"),
        ({"a": Classify("scores", "value")}, "must be BYTES of shape [-1, 2]"),
        ({"a": Classify("scores", ["x"])}, "1 labels are not as many"),
        ({"a": Classify("scores", [1, 2])}, "a list of texts"),  # type: ignore[list-item]
        ({"a": Classify("scores", 2)}, "a list of texts"),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_signatures_that_are_refused(signatures: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        shape_of(plugin(None, OUTPUTS, signatures))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def anything(self: Any, batch: Any) -> Any:
    raise NotImplementedError


def one_each(self: Any, batch: Any) -> list[str]:
    raise NotImplementedError


def iterators(self: Any, batch: Any) -> list[Iterator[str]]:
    raise NotImplementedError


def generators(self: Any, batch: Any) -> "list[Generator[str, None, None]]":
    raise NotImplementedError


async def later(self: Any, batch: Any) -> list[AsyncIterator[str]]:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("forward", "says", "streams"),
    [
        (anything, False, False),
        (one_each, False, False),
        (iterators, False, True),
        (generators, False, True),
        (later, False, True),
        (anything, True, True),
    ],
)
def test_whether_it_answers_value_by_value(forward: Any, says: bool, streams: bool) -> None:
    cls = type("Plugin", (Worker,), {"forward": forward, "streams": says})
    assert decode_signature(shape_of(cls()).signature).streams == streams


def test_what_is_too_long_to_travel() -> None:
    outputs = {"scores": Tensor("FP32", [-1, -1])}
    labels = [f"class {n}" for n in range(10_000)]
    with pytest.raises(ContractError, match="65536 are allowed"):
        shape_of(plugin(None, outputs, {"a": Classify("scores", labels)}))
    with pytest.raises(ContractError, match="signatures need outputs"):
        shape_of(plugin(None, Body, {"a": Regress("x")}))
