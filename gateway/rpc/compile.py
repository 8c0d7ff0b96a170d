"""`python -m gateway.rpc.compile`: makes `inference.binpb` and `messages.pyi` of `inference.proto`.

For developers: needs `grpcio-tools`, which nothing that runs does.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent
NAME = "inference"
_OURS = """
# What messages.py has beside the messages.
from google.protobuf.descriptor_pool import DescriptorPool
SERVICE: str
POOL: DescriptorPool
def register(file: bytes) -> None: ...
"""
_NOTE = f"""# Made by `python -m gateway.rpc.compile` of {NAME}.proto.
# mypy: disable-error-code="type-arg"
"""


def compiled() -> tuple[bytes, str]:
    """The descriptors, and the stub."""
    from grpc_tools import protoc  # noqa: PLC0415  of development alone

    with TemporaryDirectory() as folder:
        arguments = [
            "protoc",
            f"--proto_path={FOLDER}",
            f"--descriptor_set_out={folder}/{NAME}.binpb",
            f"--pyi_out={folder}",
            f"{NAME}.proto",
        ]
        if protoc.main(arguments):
            raise SystemExit(1)
        made = Path(folder)
        stub = (made / f"{NAME}_pb2.pyi").read_text()
        return (made / f"{NAME}.binpb").read_bytes(), _NOTE + stub + _OURS


if __name__ == "__main__":
    descriptors, stub = compiled()
    (FOLDER / f"{NAME}.binpb").write_bytes(descriptors)
    (FOLDER / "messages.pyi").write_text(stub)
