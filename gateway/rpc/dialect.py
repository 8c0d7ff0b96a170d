"""The dialect of this protocol over gRPC: one request from its message to its answers.

Pure. Answers always have their tensors raw, which is what stock clients read.
"""

from collections.abc import Sequence

from broker.payload.tensor_bodies import Buffer, TensorPart
from broker.wire.messages import Failure
from gateway.catalog import PipelineView
from gateway.dialect import Reply, TensorRequest
from gateway.oip.inference import Inference
from gateway.problems import Problem, problem, words
from gateway.rpc import messages
from gateway.rpc.requests import InferMessage
from gateway.rpc.wire import with_raw

GRPC_TYPE = "application/grpc"
FINAL = "triton_final_response"
WANTS_FINAL = "triton_enable_empty_final_response"


class RpcOip:
    """See `gateway.dialect.Dialect`."""

    def __init__(
        self, model: PipelineView | None, message: InferMessage | None, *, on_stream: bool = False
    ) -> None:
        """None: there is no such model, or no message, and nothing but `problem` is called.

        Where there may be several answers, `on_stream`, each says whether it is the last.
        """
        self._model = model
        self._message = message
        self._on_stream = on_stream
        self._inference: Inference | None = None

    @property
    def id(self) -> str:
        """What the client calls its request."""
        return self._message.message.id if self._message is not None else ""

    @property
    def model_name(self) -> str:
        """What the client calls the pipeline."""
        return self._message.message.model_name if self._message is not None else ""

    @property
    def wants_final(self) -> bool:
        """Whether the end of a stream is to be an answer of its own, without tensors."""
        return self._message is not None and self._message.parameters().get(WANTS_FINAL) is True

    def head_bytes(self, body_bytes: int) -> int:
        """See `Dialect`."""
        return body_bytes if self._message is None else self._message.head_bytes

    def read(self, body: Buffer) -> TensorRequest:
        """See `Dialect`. `body` is the message."""
        assert self._model is not None
        assert self._message is not None
        self._inference = self._message.read(self._model.inputs, self._model.outputs)
        return self._inference.for_call()

    def is_quick(self, parts: Sequence[TensorPart]) -> bool:
        """See `Dialect`: nothing is made of values."""
        return True

    def write(self, parts: Sequence[TensorPart], version: str) -> Reply:
        """See `Dialect`."""
        return self.write_part(parts, version, is_final=True)

    def write_part(self, parts: Sequence[TensorPart], version: str, *, is_final: bool) -> Reply:
        """The same for an answer that may not be its request's last."""
        assert self._inference is not None
        response = self._response(version, is_final=is_final)
        by_name = {part.name: part for part in parts}
        raw: list[Buffer] = []
        for wanted in self._inference.outputs:
            part = by_name[wanted.name]
            response.outputs.add(name=part.name, datatype=part.datatype, shape=part.shape)
            raw.append(part.data or b"")
        return Reply(with_raw(response.SerializeToString(), raw), GRPC_TYPE)

    def write_final(self, version: str) -> Reply:
        """The end of a stream, as an answer without tensors."""
        return Reply([self._response(version, is_final=True).SerializeToString()], GRPC_TYPE)

    def _response(self, version: str, *, is_final: bool) -> messages.ModelInferResponse:
        response = messages.ModelInferResponse(
            model_name=self.model_name, model_version=version, id=self.id
        )
        if self._on_stream:
            response.parameters[FINAL].bool_param = is_final
        return response

    def write_error(self, text: str) -> bytes:
        """A ModelStreamInferResponse for a request that failed, by which its client knows it."""
        named = messages.ModelInferResponse(model_name=self.model_name, id=self.id)
        response = messages.ModelStreamInferResponse(error_message=text, infer_response=named)
        return response.SerializeToString()

    def problem(self, failure: Failure, request_id: str) -> Problem:
        """See `Dialect`: the body is the sentence."""
        said = problem(failure, request_id)
        return said._replace(body=words(failure).encode())
