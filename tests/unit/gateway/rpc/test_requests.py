"""Whatever bytes a client sends, they are a request that fits or a fault that is named."""

from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from broker.payload.datatypes import DATATYPES
from broker.payload.signature import Declared, TensorSpec
from gateway.dialect import BadRequest
from gateway.rpc.requests import InferMessage

INPUTS = Declared([TensorSpec("x", "FP32", (-1, 2)), TensorSpec("t", "BYTES", (-1,))])
OUTPUTS = Declared([TensorSpec("y", "INT8", (-1,))])


def request(*, raw: bool) -> bytes:
    message = service_pb2.ModelInferRequest(model_name="m", model_version="1", id="i")
    message.parameters["priority"].uint64_param = 2
    message.parameters["timeout"].int64_param = 5
    x = message.inputs.add(name="x", datatype="FP32", shape=[2, 2])
    t = message.inputs.add(name="t", datatype="BYTES", shape=[2])
    message.outputs.add(name="y").parameters["other"].string_param = "s"
    if raw:
        message.raw_input_contents.extend([bytes(16), b"\x01\0\0\0a\0\0\0\0"])
    else:
        x.contents.fp32_contents.extend([1, 2, 3, 4])
        t.contents.bytes_contents.extend([b"a", b""])
    body: bytes = message.SerializeToString()
    return body


def test_both_forms_say_the_same() -> None:
    values = []
    for raw in (True, False):
        body = request(raw=raw)
        inference = InferMessage(body).read(INPUTS, OUTPUTS)
        assert (inference.id, inference.priority, inference.timeout_s) == ("i", 2, 5e-6)
        assert [wanted.name for wanted in inference.outputs] == ["y"]
        values.append([each.data or body[each.start : each.end] for each in inference.inputs])
    assert values[0][1] == values[1][1] == b"\x01\0\0\0a\0\0\0\0"
    assert len(values[0][0]) == len(values[1][0]) == 16


@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=6),
    st.integers(0, 200),
)
def test_bytes_that_were_changed(raw: bool, changes: list[tuple[int, int]], cut: int) -> None:
    body = bytearray(request(raw=raw))
    for at, byte in changes:
        body[at % len(body)] = byte
    damaged = bytes(body[: len(body) - cut // 20])
    try:
        inference = InferMessage(damaged).read(INPUTS, OUTPUTS)
    except BadRequest:
        return
    assert [each.name for each in inference.inputs] in (["x", "t"], ["t", "x"])
    for each in inference.inputs:
        assert 0 <= each.size_bytes <= len(damaged)
        assert each.datatype in DATATYPES
