"""The dialect of these protocols: one request from its JSON to its answer."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from broker.payload.errors import Mismatch
from broker.payload.signature import CLASSIFY, REGRESS, Method
from broker.payload.tensor_bodies import Buffer, TensorPart
from broker.wire.messages import Failure
from gateway import deflate
from gateway.catalog import PipelineView
from gateway.dialect import QUICK_BYTES, BadRequest, Input, Reply, TensorRequest
from gateway.headers import accepts_gzip
from gateway.problems import Problem, text_problem
from gateway.tfs import answers, events
from gateway.tfs.examples import find_method, read_examples
from gateway.tfs.requests import Request, read_tensors
from gateway.tfs.routes import Asked

_KINDS = {Asked.CLASSIFY: CLASSIFY, Asked.REGRESS: REGRESS}


class Tfs:
    """See `gateway.dialect.Dialect`."""

    def __init__(
        self,
        asked: Asked,
        model: PipelineView | None,
        headers: Mapping[str, str],
        *,
        compress_bytes: int = 0,
    ) -> None:
        """`model` None: there is none, and nothing but `problem` is called. An answer from
        `compress_bytes` on is compressed for clients that accept it; 0: none is."""
        self._kind = _KINDS.get(asked)
        self._model = model
        self._headers = headers
        self._mode = events.mode_of(headers)
        self._compress_bytes = compress_bytes
        if compress_bytes and not accepts_gzip(headers.get("Accept-Encoding", "")):
            self._compress_bytes = 0
        self._method: Method | None = None
        self._is_row = False

    def head_bytes(self, body_bytes: int) -> int:
        """See `Dialect`."""
        return body_bytes

    def read(self, body: Buffer) -> TensorRequest:
        """See `Dialect`."""
        assert self._model is not None
        request = events.read(self._mode, self._headers, body)
        try:
            return TensorRequest(self._inputs(request, self._model))
        except Mismatch as error:
            raise BadRequest(str(error)) from None

    def _inputs(self, request: Request, model: PipelineView) -> list[Input]:
        if self._kind is None:
            self._is_row = request.instances is not UNSET
            return read_tensors(request, model.inputs)
        self._method = find_method(request, self._kind, model.methods, model.name)
        return read_examples(request, model.inputs)

    def is_quick(self, parts: Sequence[TensorPart]) -> bool:
        """See `Dialect`."""
        most = deflate.INLINE_BYTES if self._compress_bytes else QUICK_BYTES
        return sum(part.size_bytes for part in parts) < most

    def write(self, parts: Sequence[TensorPart], version: str) -> Reply:
        """See `Dialect`."""
        assert self._model is not None
        reply = events.reply(self._mode, self._model.name, self._answer(parts))
        size_bytes = sum(map(len, reply.pieces))
        if not self._compress_bytes or size_bytes < self._compress_bytes:
            return reply
        extra = reply.extra + deflate.GZIP.lines.decode()
        return Reply([deflate.deflate(reply.pieces)], reply.content_type, extra)

    def _answer(self, parts: Sequence[TensorPart]) -> bytes:
        if self._method is None:
            return (answers.write_rows if self._is_row else answers.write_columns)(parts)
        if self._method.kind == CLASSIFY:
            return answers.write_classes(self._method, parts)
        return answers.write_values(self._method, parts)

    def problem(self, failure: Failure, request_id: str) -> Problem:
        """See `Dialect`."""
        return text_problem(failure, request_id)
