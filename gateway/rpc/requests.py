"""Messages that ask for inference, to tensors that fit the declaration.

Pure. The counterpart of `gateway.oip.requests`: what is wrong with a request is found in
`gateway.oip.inference`, and here only where the values of its tensors are.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from google.protobuf.message import DecodeError

from broker.payload.errors import Mismatch
from broker.payload.nested import pack_elements
from broker.payload.signature import Declared
from gateway.dialect import BadRequest, Input
from gateway.oip.inference import (
    GivenInput,
    GivenOutput,
    Inference,
    check_size,
    fit_inputs,
    scheduling,
    wanted_outputs,
)
from gateway.rpc import messages
from gateway.rpc.wire import split

_FIELDS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Where the elements of each datatype are; the others must be raw."""


class InferMessage:
    """A ModelInferRequest as it came: what protobuf read of it, and where its raw tensors lie."""

    __slots__ = ("head_bytes", "message", "raw")

    def __init__(self, body: bytes) -> None:
        """Raises BadRequest for what is no such message."""
        head, self.raw = split(body)
        self.head_bytes = len(head)
        try:
            self.message = messages.ModelInferRequest.FromString(head)
        except DecodeError:
            raise BadRequest("the bytes are no ModelInferRequest") from None

    def parameters(self) -> dict[str, Any]:
        """Those of the request itself."""
        return _values(self.message.parameters)

    def read(self, inputs: Declared, outputs: Declared) -> Inference:
        """The request, for a pipeline that declares these. Raises BadRequest."""
        message = self.message
        timeout_s, priority = scheduling(self.parameters())
        given = [
            GivenInput(each.name, list(each.shape), each.datatype, _values(each.parameters))
            for each in message.inputs
        ]
        asked = [GivenOutput(each.name, _values(each.parameters)) for each in message.outputs]
        return Inference(
            message.id,
            fit_inputs(given, inputs, self._raw if self.raw else self._contents),
            wanted_outputs(asked, outputs, usually_binary=True),
            timeout_s,
            priority,
        )

    def _raw(self, number: int, tensor: GivenInput) -> Input:
        inputs = len(self.message.inputs)
        if len(self.raw) != inputs:
            raise BadRequest(f"there are {len(self.raw)} raw_input_contents for {inputs} inputs")
        if self.message.inputs[number].HasField("contents"):
            raise BadRequest(f"input {tensor.name!r} has contents beside raw_input_contents")
        start, end = self.raw[number]
        check_size(tensor, end - start, f"raw_input_contents[{number}] is of")
        return Input(tensor.name, tensor.datatype, tensor.shape, None, start, end)

    def _contents(self, number: int, tensor: GivenInput) -> Input:
        given = self.message.inputs[number]
        count: int = prod(tensor.shape)
        if not given.HasField("contents") and count:
            raise BadRequest(f"input {tensor.name!r} has neither contents nor raw_input_contents")
        field = _FIELDS.get(tensor.datatype)
        if field is None:
            raise BadRequest(f"input {tensor.name!r}: {tensor.datatype} must be raw_input_contents")
        for other, _ in given.contents.ListFields():
            if other.name != field:
                raise BadRequest(
                    f"input {tensor.name!r} has {other.name}: {tensor.datatype} is in {field}"
                )
        elements = list(getattr(given.contents, field))
        path = f"inputs[{number}].contents.{field}"
        if len(elements) != count:
            raise BadRequest(f"expected {count} elements, got {len(elements)} - at `{path}`")
        try:
            data = pack_elements(elements, tensor.datatype, [len(elements)], path)
        except Mismatch as error:
            raise BadRequest(str(error)) from None
        return Input(tensor.name, tensor.datatype, tensor.shape, data)


def _values(parameters: Mapping[str, messages.InferParameter]) -> dict[str, Any]:
    """Parameters as Python has them; one without a value is None."""
    values = {}
    for name, parameter in parameters.items():
        choice = parameter.WhichOneof("parameter_choice")
        values[name] = None if choice is None else getattr(parameter, choice)
    return values
