"""The dialect of this protocol: one request from its JSON to its answer, compressed where asked.

Pure.
"""

import zlib
from collections.abc import Sequence

from broker.payload.media_types import parse_parameters
from broker.payload.tensor_bodies import Buffer, TensorPart
from broker.wire.messages import Failure
from gateway.catalog import PipelineView
from gateway.dialect import QUICK_BYTES, BadRequest, Reply, TensorRequest
from gateway.oip.answers import write_answer
from gateway.oip.inference import Inference
from gateway.oip.requests import json_bytes, read_request
from gateway.problems import Problem, text_problem

HEADER = "Inference-Header-Content-Length"
COMPRESS_BYTES = 1024
"""A smaller answer fits into one packet as it is."""

_GZIP = zlib.MAX_WBITS | 16


class Oip:
    """See `gateway.dialect.Dialect`."""

    def __init__(
        self, model: PipelineView | None, header_values: Sequence[str], accept_encoding: str
    ) -> None:
        """`model` None: there is none, and nothing but `problem` is called."""
        self._model = model
        self._header_values = header_values
        self._encoding = _encoding(accept_encoding)
        self._inference: Inference | None = None
        self._head_of = -1  # the size of a body, and how much of it lies before its raw tensors
        self._head_bytes = 0

    def head_bytes(self, body_bytes: int) -> int:
        """See `Dialect`. Asked for more than once, about the same body."""
        if self._head_of == body_bytes:
            return self._head_bytes
        self._head_of = body_bytes
        try:
            self._head_bytes = json_bytes(self._header_values, body_bytes)
        except BadRequest:
            self._head_bytes = body_bytes
        return self._head_bytes

    def read(self, body: Buffer) -> TensorRequest:
        """See `Dialect`."""
        assert self._model is not None
        model = self._model
        end = json_bytes(self._header_values, len(body))
        known = model.known.find(body, end)
        if known is not None:
            self._inference = known.inference
            return known.request
        inference = read_request(body, self._header_values, model.inputs, model.outputs)
        self._inference = inference
        return model.known.keep(body, end, inference)

    def is_quick(self, parts: Sequence[TensorPart]) -> bool:
        """See `Dialect`."""
        assert self._inference is not None
        if sum(part.size_bytes for part in parts) < QUICK_BYTES:
            return True
        binary = {each.name for each in self._inference.outputs if each.is_binary}
        written = [part for part in parts if self._encoding or part.name not in binary]
        return sum(part.size_bytes for part in written) < QUICK_BYTES

    def write(self, parts: Sequence[TensorPart], version: str) -> Reply:
        """See `Dialect`. Raises KeyError for an output that is not there."""
        assert self._model is not None
        assert self._inference is not None
        written = write_answer(self._inference, parts, model=self._model.name, version=version)
        extra = f"{HEADER}: {written.json_bytes}\r\n" if written.json_bytes else ""
        pieces = written.pieces
        if self._encoding and sum(memoryview(piece).nbytes for piece in pieces) > COMPRESS_BYTES:
            pieces = [_compress(pieces, self._encoding)]
            extra += f"Content-Encoding: {self._encoding}\r\n"
        return Reply(pieces, written.content_type, extra)

    def problem(self, failure: Failure, request_id: str) -> Problem:
        """See `Dialect`."""
        return text_problem(failure, request_id)


def _encoding(accepted: str) -> str:
    """gzip or deflate, whichever the client names first and does not refuse; else ""."""
    if not accepted:
        return ""
    for entry in accepted.split(","):
        name, _, parameters = entry.partition(";")
        name = name.strip().lower()
        quality = parse_parameters(parameters).get("q", "1")
        if name in ("gzip", "deflate") and quality.strip("0."):
            return name
    return ""


def _compress(pieces: Sequence[Buffer], encoding: str) -> bytes:
    deflater = zlib.compressobj(1, wbits=_GZIP if encoding == "gzip" else zlib.MAX_WBITS)
    return b"".join([*map(deflater.compress, pieces), deflater.flush()])
