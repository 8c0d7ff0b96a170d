"""The messages are those of stock clients, and their compiled form is that of the file."""

from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tritonclient.grpc import model_config_pb2, service_pb2

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
