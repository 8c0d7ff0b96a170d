"""A request for inference, whatever form it came in, held against what its pipeline declares.

Pure. The forms (JSON here, messages of gRPC) say where the values of a tensor lie; all the rest of
what can be wrong with a request is found here, once for all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar

from msgspec import Struct

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import Mismatch
from broker.payload.signature import MAX_AXES, Declared, TensorSpec
from broker.wire.messages import Priority
from gateway.dialect import BadRequest, Input, TensorRequest

MAX_TIMEOUT_US = 1 << 53
_LEAST_TEXT_BYTES = 4
"""Of one element of BYTES: its length."""
_PRIORITIES = {0: None, 1: int(Priority.HIGH), 2: int(Priority.NORMAL)}


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

    def for_call(self) -> TensorRequest:
        """What of it is not this protocol's own."""
        priority = _PRIORITIES.get(self.priority, int(Priority.LOW))
        return TensorRequest(self.inputs, self.timeout_s, priority)


class GivenInput(Struct):
    """A tensor as a client names it, without its values."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] = {}


class GivenOutput(Struct):
    """An output as a client asks for it."""

    name: str
    parameters: dict[str, Any] = {}


Given = TypeVar("Given", bound=GivenInput)


# ------------------------------------------------------------------ inputs


def fit_inputs(
    given: Sequence[Given], declared: Declared, values: Callable[[int, Given], Input]
) -> list[Input]:
    """The tensors, with the values that `values` finds for each, by its number.

    Raises BadRequest, and whatever `values` does.
    """
    found = []
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
        found.append(values(number, tensor))
    for spec in declared.tensors:
        if spec.name not in seen:
            raise BadRequest(f"the input {spec.name!r} is missing")
    return found


def _check(tensor: GivenInput, spec: TensorSpec) -> None:
    if tensor.datatype not in DATATYPES:
        raise BadRequest(f"input {spec.name!r}: unknown datatype {tensor.datatype!r:.40}")
    if tensor.datatype != spec.datatype:
        raise BadRequest(
            f"input {spec.name!r}: its datatype is {spec.datatype}, not {tensor.datatype}"
        )
    if len(tensor.shape) > MAX_AXES:
        raise BadRequest(f"input {spec.name!r}: a shape of {len(tensor.shape)} axes")
    try:
        spec.check_shape(tensor.shape)
    except Mismatch as error:
        raise BadRequest(str(error)) from None
    for name in tensor.parameters:
        if name.startswith("shared_memory_"):
            raise BadRequest(f"input {spec.name!r}: {name} is not supported")


def check_size(tensor: GivenInput, size_bytes: int, said_by: str) -> None:
    """Raises BadRequest where so many bytes cannot be the values of such a tensor."""
    what = f"input {tensor.name!r}: {tensor.datatype} of shape {tensor.shape}"
    element_bytes = DATATYPES[tensor.datatype].size_bytes
    if element_bytes:
        expected = prod(tensor.shape) * element_bytes
        if size_bytes != expected:
            raise BadRequest(f"{what} is of {expected} bytes, and {said_by} {size_bytes}")
    elif prod(tensor.shape) * _LEAST_TEXT_BYTES > size_bytes:
        raise BadRequest(f"{what} do not fit into {size_bytes} bytes")


# ------------------------------------------------------------------ outputs and parameters


def wanted_outputs(
    asked: Sequence[GivenOutput], declared: Declared, *, usually_binary: bool
) -> list[Wanted]:
    """What is to be answered, in that order: all where nothing is asked for. Raises BadRequest."""
    if not asked:
        return [Wanted(spec.name, usually_binary) for spec in declared.tensors]
    wanted: dict[str, Wanted] = {}
    for output in asked:
        name, parameters = output.name, output.parameters
        if declared.spec(name) is None:
            raise BadRequest(f"there is no output {name!r:.100}; declared: {declared.names()}")
        if name in wanted:
            raise BadRequest(f"the output {name!r} is asked for twice")
        for parameter in parameters:
            if parameter == "classification" or parameter.startswith("shared_memory_"):
                raise BadRequest(f"output {name!r}: {parameter} is not supported")
        is_binary = flag(parameters, "binary_data", usually_binary, f"output {name!r}")
        wanted[name] = Wanted(name, is_binary)
    return list(wanted.values())


def scheduling(parameters: Mapping[str, Any]) -> tuple[float, int]:
    """The timeout in seconds and the priority, 0 where there is none. Raises BadRequest."""
    timeout_us = integer(parameters, "timeout", "the request") or 0
    if timeout_us > MAX_TIMEOUT_US:
        raise BadRequest("the request: timeout is beyond all bounds")
    if parameters.get("sequence_id") not in (None, 0, ""):
        raise BadRequest("the request: sequences (sequence_id) are not supported")
    return timeout_us / 1e6, integer(parameters, "priority", "the request") or 0


def integer(parameters: Mapping[str, Any], name: str, what: str) -> int | None:
    """A parameter that is a number of 0 or more; None where it is missing. Raises BadRequest."""
    value = parameters.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise BadRequest(f"{what}: {name} must be a number of 0 or more, not {value!r:.40}")
    return value


def flag(parameters: Mapping[str, Any], name: str, default: bool, what: str) -> bool:
    """A parameter that is true or false. Raises BadRequest."""
    value = parameters.get(name, default)
    if type(value) is not bool:
        raise BadRequest(f"{what}: {name} must be true or false, not {value!r:.40}")
    return value
