"""The messages are those of stock clients, and their compiled form is that of the file."""

from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tritonclient.grpc import model_config_pb2, service_pb2

from broker.wire.errors import ERRORS
from gateway.problems import grpc_code
from gateway.rpc import compile as compiler
from gateway.rpc import messages

POOL: Any = messages.POOL  # its methods have no types


def fields(descriptor: Any) -> dict[str, tuple[int, int, bool]]:
    return {each.name: (each.number, each.type, each.is_repeated) for each in descriptor.fields}


def compare(ours: Any, theirs: Any) -> None:
    """Each field of ours is there with the same number and type, in nested messages, too."""
    known = fields(theirs)
    for name, field in fields(ours).items():
        assert known[name] == field, f"{ours.full_name}.{name}"
    for nested in ours.nested_types:
        compare(nested, theirs.nested_types_by_name[nested.name])


def test_every_field_is_as_stock_clients_have_it() -> None:
    file = POOL.FindFileByName("inference.proto")
    for name, descriptor in file.message_types_by_name.items():
        theirs = getattr(service_pb2, name, None) or getattr(model_config_pb2, name)
        compare(descriptor, theirs.DESCRIPTOR)
    numbers = {each.name: each.number for each in file.enum_types_by_name["DataType"].values}
    assert numbers == dict(model_config_pb2.DataType.items())


def test_every_method_is_as_stock_clients_call_it() -> None:
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    for method in POOL.FindServiceByName(messages.SERVICE).methods:
        known = theirs.methods_by_name[method.name]
        assert method.input_type.full_name == known.input_type.full_name
        assert method.output_type.full_name == known.output_type.full_name


def test_the_compiled_form_is_up_to_date() -> None:
    descriptors, stub = compiler.compiled()
    kept = (compiler.FOLDER / "inference.binpb").read_bytes()
    assert FileDescriptorSet.FromString(descriptors) == FileDescriptorSet.FromString(kept)
    assert (compiler.FOLDER / "messages.pyi").read_text() == stub


def test_every_error_has_a_code_of_grpc() -> None:
    codes = {row.name: grpc_code(row.status) for row in ERRORS.values()}
    assert all(hasattr(grpc.StatusCode, code) for code in codes.values())
    assert codes["queue_full"] == codes["body_too_large"] == "RESOURCE_EXHAUSTED"
    assert codes["bad_request"] == codes["bad_header"] == grpc_code(422) == "INVALID_ARGUMENT"
    assert codes["unknown_pipeline"] == codes["unknown_version"] == "NOT_FOUND"
    assert codes["worker_error"] == codes["worker_crashed"] == grpc_code(599) == "INTERNAL"
    assert codes["not_ready"] == codes["draining"] == codes["worker_lost"] == "UNAVAILABLE"
    assert codes["deadline_exceeded"] == "DEADLINE_EXCEEDED"
    assert codes["client_gone"] == "CANCELLED"
