"""Declarations as they travel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.payload.errors import Mismatch
from broker.payload.signature import (
    CLASSIFY,
    UNDECLARED,
    Declared,
    Method,
    Signature,
    TensorSpec,
    decode_signature,
    encode_signature,
)

SPEC = TensorSpec("x", "FP32", (-1, 2))


@pytest.mark.parametrize(
    "signature",
    [
        UNDECLARED,
        Signature(Declared([SPEC])),
        Signature(Declared([SPEC]), Declared([TensorSpec("y", "BYTES", ())])),
        Signature(Declared(schema=b"{}")),
        Signature(outputs=Declared([SPEC]), methods=[Method("m", CLASSIFY, "x", labels=["a"])]),
    ],
)
def test_there_and_back(signature: Signature) -> None:
    assert decode_signature(encode_signature(signature)) == signature


@given(st.binary(max_size=60))
def test_what_is_none_declares_nothing(data: bytes) -> None:
    assert isinstance(decode_signature(data), Signature)


@pytest.mark.parametrize("spec", [TensorSpec("x", "FP33", ()), TensorSpec("x", "FP32", (-2,))])
def test_what_no_release_knows_declares_nothing(spec: TensorSpec) -> None:
    assert decode_signature(encode_signature(Signature(Declared([spec])))) == UNDECLARED


@pytest.mark.parametrize(
    "method",
    [Method("m", "explain", "x"), Method("m", CLASSIFY, "y"), Method("m", CLASSIFY, "x", "y")],
)
def test_methods_that_no_release_knows_are_left_out(method: Method) -> None:
    known = Method("n", CLASSIFY, "x")
    sent = Signature(outputs=Declared([SPEC]), methods=[method, known])
    got = decode_signature(encode_signature(sent))
    assert (got.outputs, got.methods) == (sent.outputs, [known])


@pytest.mark.parametrize("shape", [[0, 2], [5, 2], [1 << 40, 2]])
def test_shapes_that_fit(shape: list[int]) -> None:
    SPEC.check_shape(shape)


@pytest.mark.parametrize("shape", [[], [2], [1, 3], [-1, 2], [1 << 50, 2], [1, 2, 1]])
def test_shapes_that_do_not(shape: list[int]) -> None:
    with pytest.raises(Mismatch):
        SPEC.check_shape(shape)


def test_tensors_by_name() -> None:
    assert Declared([SPEC]).spec("x") is SPEC
    assert Declared([SPEC]).spec("y") is None
