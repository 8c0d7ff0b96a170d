"""Requests in JSON, with raw tensors behind it, to tensors that fit the declaration.

Pure. Nothing is copied of raw tensors, which stay where they lie in the body; those of JSON become
bytes. Whatever the bytes are, the outcome is an `Inference` or a `BadRequest` that names the fault,
and what is allocated on the way is bounded by the body.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import Mismatch
from broker.payload.nested import flatten, pack_elements
from broker.payload.signature import Declared
from broker.payload.tensor_bodies import Buffer
from gateway.dialect import BadRequest, Input
from gateway.oip.inference import (
    GivenInput,
    GivenOutput,
    Inference,
    Wanted,
    check_size,
    fit_inputs,
    flag,
    integer,
    scheduling,
    wanted_outputs,
)


class _Input(GivenInput):
    data: Any = UNSET


class _Request(Struct):
    inputs: list[_Input]
    id: str | UnsetType = UNSET
    parameters: dict[str, Any] = {}
    outputs: list[GivenOutput] = []


_decode = msgspec.json.Decoder(_Request).decode


def json_bytes(values: Sequence[str], body_bytes: int) -> int:
    """How long the JSON at the beginning of a body is.

    `values` are those of its `Inference-Header-Content-Length`. Raises BadRequest.
    """
    if not values:
        return body_bytes
    text = values[0].strip()
    if len(values) > 1 or not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadRequest("Inference-Header-Content-Length must be one number of bytes")
    length = int(text)
    if length > body_bytes:
        raise BadRequest(
            f"Inference-Header-Content-Length is {text}, and the body has {body_bytes} bytes"
        )
    return length


def read_request(
    body: Buffer, header_values: Sequence[str], inputs: Declared, outputs: Declared
) -> Inference:
    """The request in a body, for a pipeline that declares these. Raises BadRequest."""
    end = json_bytes(header_values, len(body))
    if header_values and not end:
        return _read_raw(len(body), body, inputs, outputs)
    try:
        request = _decode(memoryview(body)[:end])
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the request is not as the protocol has it: {error}") from None
    timeout_s, priority = scheduling(request.parameters)
    try:
        found = _inputs(request.inputs, inputs, end, len(body))
    except Mismatch as error:
        raise BadRequest(str(error)) from None
    usually_binary = flag(request.parameters, "binary_data_output", False, "the request")
    wanted = wanted_outputs(request.outputs, outputs, usually_binary=usually_binary)
    request_id = None if request.id is UNSET else request.id
    return Inference(request_id, found, wanted, timeout_s, priority)


def _inputs(given: list[_Input], declared: Declared, at: int, body_bytes: int) -> list[Input]:
    """Raw values follow each other from `at` on, and end with the body."""

    def values(number: int, tensor: _Input) -> Input:
        nonlocal at
        size_bytes = integer(tensor.parameters, "binary_data_size", f"input {tensor.name!r}")
        if size_bytes is None:
            return _from_json(tensor, number)
        if tensor.data is not UNSET:
            raise BadRequest(f"input {tensor.name!r} has both data and binary_data_size")
        if size_bytes > body_bytes - at:
            raise BadRequest(
                f"input {tensor.name!r}: binary_data_size is {size_bytes}, and of the body "
                f"{body_bytes - at} bytes are left (see Inference-Header-Content-Length)"
            )
        check_size(tensor, size_bytes, "binary_data_size is")
        start, at = at, at + size_bytes
        return Input(tensor.name, tensor.datatype, tensor.shape, None, start, at)

    found = fit_inputs(given, declared, values)
    if at != body_bytes:
        raise BadRequest(f"{body_bytes - at} bytes of the body belong to no input")
    return found


def _from_json(tensor: _Input, number: int) -> Input:
    if tensor.data is UNSET:
        raise BadRequest(f"input {tensor.name!r} has neither data nor binary_data_size")
    path = f"$.inputs[{number}].data"
    elements, shape = flatten(tensor.data, tensor.shape or [1], path)
    data = pack_elements(elements, tensor.datatype, shape, path)
    return Input(tensor.name, tensor.datatype, tensor.shape, data)


def _read_raw(body_bytes: int, body: Buffer, inputs: Declared, outputs: Declared) -> Inference:
    """The whole body is the one input's values."""
    if len(inputs.tensors) != 1:
        raise BadRequest(f"a raw request is for pipelines of one input; declared: {inputs.names()}")
    (spec,) = inputs.tensors
    if spec.shape.count(-1) > 1:
        raise BadRequest(f"a raw request cannot say of which shape {list(spec.shape)} it is")
    wanted = [Wanted(output.name, is_binary=True) for output in outputs.tensors]
    if spec.datatype == "BYTES":
        known = prod(length for length in spec.shape if length != -1)
        if known != 1:
            raise BadRequest(f"a raw request is one element, not {list(spec.shape)} of them")
        data = body_bytes.to_bytes(4, "little") + bytes(body)
        found = Input(spec.name, "BYTES", [1] * len(spec.shape), data)
        return Inference(None, [found], wanted)
    unit = DATATYPES[spec.datatype].size_bytes * prod(n for n in spec.shape if n != -1)
    count, rest = divmod(body_bytes, unit) if unit else (0, body_bytes)
    if rest or (-1 not in spec.shape and count != 1 and unit):
        raise BadRequest(f"{body_bytes} bytes are no {spec.datatype} of shape {list(spec.shape)}")
    shape = [count if length == -1 else length for length in spec.shape]
    found = Input(spec.name, spec.datatype, shape, None, 0, body_bytes)
    return Inference(None, [found], wanted)
