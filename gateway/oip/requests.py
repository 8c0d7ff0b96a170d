"""Requests for inference: JSON, with raw tensors behind it, to tensors that fit the declaration.

Pure. Nothing is copied of raw tensors, which stay where they lie in the body; those of JSON become
bytes. Whatever the bytes are, the outcome is an `Inference` or a `BadRequest` that names the fault,
and what is allocated on the way is bounded by the body.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import Mismatch
from broker.payload.nested import flatten, pack_elements
from broker.payload.signature import MAX_AXES, Declared, TensorSpec
from broker.payload.tensor_bodies import Buffer
from gateway.dialect import BadRequest, Input

MAX_TIMEOUT_US = 1 << 53
_LEAST_TEXT_BYTES = 4
"""Of one element of BYTES: its length."""


class Wanted(Struct, frozen=True):
    """One output that the client wants, and how."""

    name: str
    is_binary: bool


class Inference(Struct, frozen=True):
    """A request that fits its pipeline."""

    id: str | None
    inputs: list[Input]
    outputs: list[Wanted]
    timeout_s: float = 0.0
    """0 where the client names none."""
    priority: int = 0
    """1 is the highest; 0 where the client names none."""


class _Input(Struct):
    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] = {}
    data: Any = UNSET


class _Output(Struct):
    name: str
    parameters: dict[str, Any] = {}


class _Request(Struct):
    inputs: list[_Input]
    id: str | UnsetType = UNSET
    parameters: dict[str, Any] = {}
    outputs: list[_Output] = []


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
    if int(text) > body_bytes:
        raise BadRequest(
            f"Inference-Header-Content-Length is {text}, and the body has {body_bytes} bytes"
        )
    return int(text)


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
    timeout_s, priority = _scheduling(request.parameters)
    try:
        found = _inputs(request.inputs, inputs, end, len(body))
    except Mismatch as error:
        raise BadRequest(str(error)) from None
    return Inference(
        None if request.id is UNSET else request.id,
        found,
        _outputs(request, outputs),
        timeout_s,
        priority,
    )


# ------------------------------------------------------------------ inputs


def _inputs(given: list[_Input], declared: Declared, end: int, body_bytes: int) -> list[Input]:
    found = []
    at = end
    seen = set()
    for number, tensor in enumerate(given):
        spec = declared.spec(tensor.name)
        if spec is None:
            raise BadRequest(
                f"there is no input {tensor.name!r:.100}; declared: {declared.names()}"
            )
        if tensor.name in seen:
            raise BadRequest(f"the input {tensor.name!r} is given twice")
        seen.add(tensor.name)
        _check(tensor, spec)
        size_bytes = _integer(tensor.parameters, "binary_data_size", f"input {spec.name!r}")
        if size_bytes is None:
            found.append(_from_json(tensor, number))
            continue
        if tensor.data is not UNSET:
            raise BadRequest(f"input {spec.name!r} has both data and binary_data_size")
        if size_bytes > body_bytes - at:
            raise BadRequest(
                f"input {spec.name!r}: binary_data_size is {size_bytes}, and of the body "
                f"{body_bytes - at} bytes are left (see Inference-Header-Content-Length)"
            )
        _check_size(tensor.datatype, tensor.shape, size_bytes, f"input {spec.name!r}")
        start, at = at, at + size_bytes
        found.append(Input(spec.name, spec.datatype, tensor.shape, None, start, at))
    if at != body_bytes:
        raise BadRequest(f"{body_bytes - at} bytes of the body belong to no input")
    for spec in declared.tensors:
        if spec.name not in seen:
            raise BadRequest(f"the input {spec.name!r} is missing")
    return found


def _check(tensor: _Input, spec: TensorSpec) -> None:
    if tensor.datatype not in DATATYPES:
        raise BadRequest(f"input {spec.name!r}: unknown datatype {tensor.datatype!r:.40}")
    if tensor.datatype != spec.datatype:
        raise BadRequest(
            f"input {spec.name!r}: its datatype is {spec.datatype}, not {tensor.datatype}"
        )
    if len(tensor.shape) > MAX_AXES:
        raise BadRequest(f"input {spec.name!r}: a shape of {len(tensor.shape)} axes")
    spec.check_shape(tensor.shape)
    for name in tensor.parameters:
        if name.startswith("shared_memory_"):
            raise BadRequest(f"input {spec.name!r}: {name} is not supported")


def _check_size(datatype: str, shape: Sequence[int], size_bytes: int, what: str) -> None:
    """Raises BadRequest where so many bytes cannot be the values of such a tensor."""
    element_bytes = DATATYPES[datatype].size_bytes
    if element_bytes:
        expected = prod(shape) * element_bytes
        if size_bytes != expected:
            raise BadRequest(
                f"{what}: {datatype} of shape {list(shape)} is of {expected} bytes, "
                f"and binary_data_size is {size_bytes}"
            )
    elif prod(shape) * _LEAST_TEXT_BYTES > size_bytes:
        raise BadRequest(f"{what}: BYTES of shape {list(shape)} do not fit into {size_bytes} bytes")


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


# ------------------------------------------------------------------ outputs and parameters


def _outputs(request: _Request, declared: Declared) -> list[Wanted]:
    usual = _flag(request.parameters, "binary_data_output", False, "the request")
    if not request.outputs:
        return [Wanted(spec.name, usual) for spec in declared.tensors]
    wanted: dict[str, Wanted] = {}
    for output in request.outputs:
        name, parameters = output.name, output.parameters
        if declared.spec(name) is None:
            raise BadRequest(f"there is no output {name!r:.100}; declared: {declared.names()}")
        if name in wanted:
            raise BadRequest(f"the output {name!r} is asked for twice")
        for parameter in parameters:
            if parameter == "classification" or parameter.startswith("shared_memory_"):
                raise BadRequest(f"output {name!r}: {parameter} is not supported")
        is_binary = _flag(parameters, "binary_data", usual, f"output {name!r}")
        wanted[name] = Wanted(name, is_binary)
    return list(wanted.values())


def _scheduling(parameters: Mapping[str, Any]) -> tuple[float, int]:
    timeout_us = _integer(parameters, "timeout", "the request") or 0
    if timeout_us > MAX_TIMEOUT_US:
        raise BadRequest("the request: timeout is beyond all bounds")
    if parameters.get("sequence_id") not in (None, 0, ""):
        raise BadRequest("the request: sequences (sequence_id) are not supported")
    return timeout_us / 1e6, _integer(parameters, "priority", "the request") or 0


def _integer(parameters: Mapping[str, Any], name: str, what: str) -> int | None:
    value = parameters.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise BadRequest(f"{what}: {name} must be a number of 0 or more, not {value!r:.40}")
    return value


def _flag(parameters: Mapping[str, Any], name: str, default: bool, what: str) -> bool:
    value = parameters.get(name, default)
    if type(value) is not bool:
        raise BadRequest(f"{what}: {name} must be true or false, not {value!r:.40}")
    return value
