"""The two faces of the protocol, REST and gRPC, behind one form: a request, and its outcome.

Requests are built by hand, from the messages of the stock client, so that they may be wrong.
"""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import grpc
from msgspec import Struct
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.system.client import Client

HEADER = "Inference-Header-Content-Length"


class In(Struct):
    """A tensor in binary, or without any values."""

    name: str
    datatype: str
    shape: list[int]
    data: bytes | None = b""
    parameters: dict[str, Any] = {}


class Ask(Struct):
    """A request."""

    inputs: list[In]
    model: str = "pairs"
    version: str = ""
    id: str | None = None
    outputs: list[tuple[str, dict[str, Any]]] = []
    parameters: dict[str, Any] = {}
    headers: dict[str, str] = {}


class Said(NamedTuple):
    """What came of it. `code` is that of gRPC, OK for a result."""

    code: str
    text: str = ""
    id: str = ""
    model: str = ""
    version: str = ""
    outputs: tuple[tuple[str, str, tuple[int, ...], bytes], ...] = ()
    headers: Mapping[str, str] = {}


class Face(Protocol):
    """One of the two."""

    def ask(self, ask: Ask) -> Said:
        """Send it, and wait for the outcome."""


CODES = {
    400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL",
    503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip


class Rest:
    """Everything in binary, and answers, too."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def ask(self, ask: Ask) -> Said:
        document: dict[str, Any] = {
            "inputs": [_rest_input(each) for each in ask.inputs],
            "parameters": {"binary_data_output": True, **ask.parameters},
        }
        if ask.id is not None:
            document["id"] = ask.id
        if ask.outputs:
            document["outputs"] = [
                {"name": name, "parameters": parameters} for name, parameters in ask.outputs
            ]
        text = json.dumps(document).encode()
        version = f"/versions/{ask.version}" if ask.version else ""
        answer = self._client.post(
            f"/v2/models/{ask.model}{version}/infer",
            text + b"".join(each.data or b"" for each in ask.inputs),
            {HEADER: str(len(text)), **ask.headers},
        )
        if answer.status != 200:
            error = answer.json()["error"]
            return Said(CODES[answer.status], error, headers=answer.headers)
        end = int(answer.headers.get(HEADER.lower(), len(answer.body)))
        said = json.loads(answer.body[:end])
        outputs = []
        for each in said["outputs"]:
            size = each["parameters"]["binary_data_size"]
            data = answer.body[end : end + size]
            outputs.append((each["name"], each["datatype"], tuple(each["shape"]), data))
            end += size
        return Said(
            "OK", "", said.get("id", ""), said["model_name"], said["model_version"],
            tuple(outputs), answer.headers,
        )  # fmt: skip


def _rest_input(tensor: In) -> dict[str, Any]:
    parameters = dict(tensor.parameters)
    if tensor.data is not None:
        parameters["binary_data_size"] = len(tensor.data)
    return {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "shape": tensor.shape,
        "parameters": parameters,
    }


class Rpc:
    """A context manager: it has a channel of its own."""

    def __init__(self, address: str) -> None:
        most = ("grpc.max_receive_message_length", -1)
        self._channel = grpc.insecure_channel(address, options=[most])
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._channel.close()

    @property
    def channel(self) -> Any:
        """For other services, and for bytes that are no message."""
        return self._channel

    def ask(self, ask: Ask) -> Said:
        return self.send(message_of(ask), ask.headers)

    def send(self, message: Any, headers: Mapping[str, str] | None = None, **options: Any) -> Said:
        """Send a message, whatever is in it."""
        metadata = [(name.lower(), value) for name, value in (headers or {}).items()]
        try:
            answer, call = self.stub.ModelInfer.with_call(
                message, metadata=metadata, timeout=20, **options
            )
        except grpc.RpcError as error:
            return Said(error.code().name, error.details(), headers=_trailers(error))
        return said_of(answer)._replace(headers=_trailers(call))


def said_of(answer: Any) -> Said:
    """What a ModelInferResponse says."""
    outputs = tuple(
        (each.name, each.datatype, tuple(each.shape), data)
        for each, data in zip(answer.outputs, answer.raw_output_contents, strict=True)
    )
    return Said("OK", "", answer.id, answer.model_name, answer.model_version, outputs)


def _trailers(call: Any) -> dict[str, str]:
    return {each.key: each.value for each in call.trailing_metadata() or ()}


def message_of(ask: Ask) -> Any:
    """The same as a ModelInferRequest."""
    message = service_pb2.ModelInferRequest(
        model_name=ask.model, model_version=ask.version, id=ask.id or ""
    )
    _fill(message.parameters, ask.parameters)
    for each in ask.inputs:
        tensor = message.inputs.add(name=each.name, datatype=each.datatype, shape=each.shape)
        _fill(tensor.parameters, each.parameters)
        if each.data is not None:
            message.raw_input_contents.append(each.data)
    for name, parameters in ask.outputs:
        _fill(message.outputs.add(name=name).parameters, parameters)
    return message


def _fill(fields: Any, parameters: Mapping[str, Any]) -> None:
    for name, value in parameters.items():
        kinds = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
        setattr(fields[name], kinds[type(value)], value)
