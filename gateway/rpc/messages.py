"""The messages of `inference.proto`, as classes.

They are made of compiled descriptors (`inference.binpb`), not of generated Python: that is bound to
one major version of protobuf, and registers its names for the whole process. The pool here is our
own, so that another package's messages of the same names, such as those of a client, are no clash.
"""

from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

SERVICE = "inference.GRPCInferenceService"

_BYTES = Path(__file__).with_name("inference.binpb").read_bytes()

POOL = DescriptorPool()


def register(file: bytes) -> None:
    """Have a file of another package in the pool, too, so that reflection can tell of it."""
    POOL.Add(FileDescriptorProto.FromString(file))


for _file in FileDescriptorSet.FromString(_BYTES).file:
    register(_file.SerializeToString())
    for _message in _file.message_type:
        globals()[_message.name] = GetMessageClass(
            POOL.FindMessageTypeByName(f"{_file.package}.{_message.name}")
        )
