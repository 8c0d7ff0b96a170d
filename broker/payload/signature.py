"""What a pipeline takes and gives, as its plug-ins declare it: tensors by name, or typed objects.

Pure. A worker says in its HELLO what its plug-in declares, in bytes that mean nothing to the
broker; gateways learn it with the catalog.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import Mismatch

DEFAULT_SIGNATURE = "serving_default"
"""What TensorFlow Serving calls the outputs as they are: no method has this name."""
CLASSIFY = "classify"
REGRESS = "regress"
MAX_AXES = 32
MAX_ELEMENTS = 1 << 48
"""Of one tensor, its axes of length 0 left out: more than any body holds, and safe to multiply."""


class TensorSpec(Struct, frozen=True, array_like=True):
    """A declared tensor under its name, as it travels."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def check_shape(self, shape: Sequence[int]) -> None:
        """Raises Mismatch where an array of this shape is not what was declared."""
        fits = len(shape) == len(self.shape)
        elements = 1
        for declared, length in zip(self.shape, shape, strict=False):  # of each request: no `any`
            if length != declared != -1 or length < 0:
                fits = False
            elements *= length or 1
        if not fits:
            raise Mismatch(
                f"{self.name!r} must be of shape {list(self.shape)}, not {list(shape)[:MAX_AXES]}"
            )
        if elements > MAX_ELEMENTS:
            raise Mismatch(f"{self.name!r} has a shape beyond all bounds: {list(shape)}")


class Declared(Struct, frozen=True, array_like=True):
    """One side of a pipeline: tensors, or else the JSON schema of objects."""

    tensors: list[TensorSpec] = []
    schema: bytes = b""

    def spec(self, name: str) -> TensorSpec | None:
        """The tensor of that name."""
        return next((spec for spec in self.tensors if spec.name == name), None)

    def names(self) -> str:
        """Of the tensors, for people."""
        return ", ".join(spec.name for spec in self.tensors)


class Method(Struct, frozen=True, array_like=True):
    """A way to ask for outputs by what they mean, under its name."""

    name: str
    kind: str
    """`CLASSIFY` or `REGRESS`."""
    values: str
    """The output that holds the scores of classes, or one value for each example."""
    classes: str = ""
    """The output that names the classes; "" for none."""
    labels: list[str] = []
    """The names of the classes, where they are always the same."""


class Signature(Struct, frozen=True, array_like=True):
    """What one plug-in declares. Append-only, as messages are."""

    inputs: Declared = Declared()
    outputs: Declared = Declared()
    methods: list[Method] = []
    streams: bool = False
    """Whether it answers value by value."""


UNDECLARED = Signature()

_decoder = msgspec.msgpack.Decoder(Signature)


def encode_signature(signature: Signature) -> bytes:
    """The form in which it travels; b"" where nothing is declared."""
    return b"" if signature == UNDECLARED else msgspec.msgpack.encode(signature)


@lru_cache(maxsize=256)  # catalogs come often, and say the same
def decode_signature(data: bytes) -> Signature:
    """The reverse of `encode_signature`. What is none declares nothing: it came from a plug-in."""
    if not data:
        return UNDECLARED
    try:
        signature = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return UNDECLARED
    known = all(
        spec.datatype in DATATYPES and all(length >= -1 for length in spec.shape)
        for side in (signature.inputs, signature.outputs)
        for spec in side.tensors
    )
    if not known:
        return UNDECLARED
    methods = [each for each in signature.methods if _is_known(each, signature.outputs)]
    return replace(signature, methods=methods)


def _is_known(method: Method, outputs: Declared) -> bool:
    """A newer release may have more kinds: without these the rest still holds."""
    return (
        method.kind in (CLASSIFY, REGRESS)
        and outputs.spec(method.values) is not None
        and (not method.classes or outputs.spec(method.classes) is not None)
    )
