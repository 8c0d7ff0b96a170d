"""Messages taken apart and put together, against what protobuf itself makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from gateway.dialect import BadRequest
from gateway.rpc import messages
from gateway.rpc.wire import MAX_FIELDS, on_stream, split, with_raw

RAW = st.lists(st.binary(max_size=300), max_size=4)


@given(st.text(max_size=200), RAW)
def test_raw_tensors_are_found_where_they_lie(name: str, raw: list[bytes]) -> None:
    request = service_pb2.ModelInferRequest(model_name=name, raw_input_contents=raw)
    request.inputs.add(name="x", datatype="FP32", shape=[-1, 2**40])
    body = request.SerializeToString()
    head, found = split(body)
    assert [body[start:end] for start, end in found] == raw
    rest = messages.ModelInferRequest.FromString(head)
    assert (rest.model_name, list(rest.inputs[0].shape)) == (name, [-1, 2**40])
    assert not rest.raw_input_contents


@given(RAW)
def test_raw_tensors_may_stand_anywhere(raw: list[bytes]) -> None:
    parts = [service_pb2.ModelInferRequest(raw_input_contents=[each]) for each in raw]
    named = service_pb2.ModelInferRequest(model_name="m").SerializeToString()
    body = b"".join(part.SerializeToString() + named for part in parts)
    head, found = split(body)
    assert [body[start:end] for start, end in found] == raw
    assert head == named * len(raw)


@given(st.text(max_size=200), RAW)
def test_answers_are_what_protobuf_reads(name: str, raw: list[bytes]) -> None:
    head = messages.ModelInferResponse(model_name=name, id="é").SerializeToString()
    pieces = with_raw(head, [memoryview(each) for each in raw])
    response = service_pb2.ModelInferResponse.FromString(b"".join(pieces))
    assert (response.model_name, response.id) == (name, "é")
    assert list(response.raw_output_contents) == raw
    streamed = service_pb2.ModelStreamInferResponse.FromString(b"".join(on_stream(pieces)))
    assert streamed.infer_response == response


@given(st.binary(max_size=60))
def test_whatever_the_bytes_are(body: bytes) -> None:
    try:
        head, found = split(body)
    except BadRequest:
        return
    assert all(0 <= start <= end <= len(body) for start, end in found)
    assert len(head) <= len(body)


def test_millions_of_parts_are_not_looked_at() -> None:
    with pytest.raises(BadRequest, match=f"more than {MAX_FIELDS} parts"):
        split(b"\x2a\x00" * (MAX_FIELDS + 1))
