"""Requests for inference, remembered by their JSON: who sends tensors sends the same JSON again.

Pure. Raw values lie behind the JSON, so the same JSON before as many bytes means the same request,
as long as its pipeline declares the same.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from broker.payload.tensor_bodies import INLINE_BYTES, Buffer, TensorPart, pack_names
from gateway.dialect import TensorRequest
from gateway.oip.inference import Inference

MAX_KNOWN: Final = 256
MAX_KNOWN_BYTES: Final = 1024
"""Longer JSON is read each time; so what is remembered for a pipeline is about a megabyte."""


class Known(Struct, frozen=True):
    """One of them."""

    body_bytes: int
    inference: Inference
    request: TensorRequest


class KnownRequests:
    """Those of one pipeline, for as long as it declares the same."""

    __slots__ = ("_by_json",)

    def __init__(self) -> None:
        self._by_json: dict[bytes, Known] = {}

    def find(self, body: Buffer, json_bytes: int) -> Known | None:
        """What the body says, if the like has been kept; its JSON is so long."""
        if not 0 < json_bytes <= MAX_KNOWN_BYTES:
            return None
        known = self._by_json.get(bytes(memoryview(body)[:json_bytes]))
        return known if known is not None and known.body_bytes == len(body) else None

    def keep(self, body: Buffer, json_bytes: int, inference: Inference) -> TensorRequest:
        """The request for the engine; remembered if it may come again.

        It may not where the client has given it an id, or has put values into the JSON.
        """
        request = inference.for_call()
        if not 0 < json_bytes <= MAX_KNOWN_BYTES or inference.id is not None:
            return request
        if any(each.data is not None for each in request.inputs):
            return request
        if len(self._by_json) >= MAX_KNOWN:
            self._by_json.clear()
        if sum(each.size_bytes for each in request.inputs) > INLINE_BYTES:
            parts = [TensorPart(i.name, i.datatype, i.shape) for i in request.inputs]
            request = replace(request, names=pack_names(parts))
        json = bytes(memoryview(body)[:json_bytes])
        self._by_json[json] = Known(len(body), inference, request)
        return request
