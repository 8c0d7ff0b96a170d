"""Requests of the Open Inference Protocol, changed, in messages of gRPC and in JSON.

Whatever comes, it is refused with BadRequest, soon, or becomes the arrays that it says, for an echo
to answer with. What is read of a message is what protobuf itself reads of it, and a request that
has been read before is read the same.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from broker.payload.datatypes import DATATYPES
from broker.payload.errors import BadBody, Mismatch
from broker.payload.nested import join_elements
from broker.payload.signature import Declared, Signature, TensorSpec, encode_signature
from broker.payload.tensor_arrays import arrays_of_parts, parts_of_result
from broker.payload.tensor_bodies import TensorPart, unpack_tensors
from broker.wire.frames import Buffer
from broker.wire.messages import PipelineInfo, StageInfo
from gateway.catalog import PipelineView
from gateway.dialect import BadRequest, Reply, TensorRequest
from gateway.memory import UploadMemory
from gateway.oip.dialect import Oip
from gateway.rpc import messages
from gateway.rpc.dialect import RpcOip
from gateway.rpc.requests import InferMessage
from gateway.uploads import tensor_payload
from tests.fuzz.budget import Budget
from tests.fuzz.mutation import ODD, Mutator
from tests.fuzz.target import Finding

_TENSORS: dict[str, list[tuple[str, str, tuple[int, ...]]]] = {
    "one": [("x", "FP32", (-1, 2))],
    "text": [("x", "BYTES", (-1,))],
    "fixed": [("x", "INT64", (2,))],
    "many": [(f"x{number}", kind, (-1, -1)) for number, kind in enumerate(DATATYPES)],
    "scalar": [("x", "BOOL", ())],
}
SIDES = {
    name: Declared([TensorSpec(*tensor) for tensor in tensors])
    for name, tensors in _TENSORS.items()
}
MOST_SHOWN = 2000
MOST_SAID = 4000
"""Characters of a refusal: what the client sent is not sent back whole."""


class Tensors:
    """The target; one step is one request."""

    name = "tensors"

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._mutator = Mutator(rng)
        self._memory = UploadMemory(0)
        self._views = {name: _view(side) for name, side in SIDES.items()}
        self._budget = Budget()

    def step(self) -> int:
        """One request, in one form."""
        return self._budget.step(self._message if self._rng.random() < 0.6 else self._json)

    def finish(self) -> dict[str, str]:
        """See `Budget`."""
        return self._budget.finish()

    def close(self) -> None:
        """Nothing was started."""

    # -------------------------------------------------------------- messages

    def _message(self) -> None:
        view = self._views[self._rng.choice(list(SIDES))]
        body = self._changed(self._good_message(view.inputs))
        try:
            self._take_message(body, view)
        except Exception as error:
            raise Finding(f"{view.name}: {body[:MOST_SHOWN].hex()}") from error

    def _take_message(self, body: bytes, view: PipelineView) -> None:
        try:
            message = InferMessage(body)
            dialect = RpcOip(view, message)
            request = dialect.read(body)
        except BadRequest as error:
            _check_words(error)
            return
        try:
            whole = messages.ModelInferRequest.FromString(body)
        except DecodeError:
            raise AssertionError("protobuf cannot read it") from None
        raw = [body[start:end] for start, end in message.raw]
        assert raw == list(whole.raw_input_contents)
        del whole.raw_input_contents[:]
        assert whole == message.message
        answered = self._echo(request, body, view, lambda parts: dialect.write(parts, "1"))
        if answered is not None:
            reply, by_name = answered
            said = messages.ModelInferResponse.FromString(_joined(reply))
            assert len(said.outputs) == len(said.raw_output_contents)
            for output, data in zip(said.outputs, said.raw_output_contents, strict=True):
                assert data == bytes(by_name[output.name].data or b"")

    def _good_message(self, declared: Declared) -> bytes:
        rng = self._rng
        message = messages.ModelInferRequest(model_name="m", id=rng.choice(("", "7")))
        is_raw = rng.random() < 0.6
        for name, datatype, shape, elements in self._tensors(declared):
            tensor = message.inputs.add(name=name, datatype=datatype, shape=shape)
            if is_raw:
                message.raw_input_contents.append(_bytes_of(datatype, elements))
            else:
                field = rng.choice([each.name for each in tensor.contents.DESCRIPTOR.fields])
                with suppress(TypeError, ValueError, OverflowError):
                    getattr(tensor.contents, field).extend(elements)
        for name in rng.sample([spec.name for spec in declared.tensors], 1):
            if rng.random() < 0.3:
                message.outputs.add(name=name)
        if rng.random() < 0.3:
            message.parameters["timeout"].int64_param = rng.choice((0, -1, 5, 1 << 60))
            message.parameters["priority"].uint64_param = rng.choice((0, 1, 1 << 63))
        return message.SerializeToString()

    # -------------------------------------------------------------- JSON

    def _json(self) -> None:
        rng = self._rng
        view = self._views[rng.choice(list(SIDES))]
        text, raw = self._good_json(view.inputs)
        text = self._changed(text)
        if rng.random() < 0.2:
            raw = self._mutator.data(raw)
        lie = rng.choice((0, 0, 0, 0, 1, -1, -len(text), 1 << 40))
        values = [] if rng.random() < 0.1 else [str(len(text) + lie)]
        try:
            self._take_json(text + raw, values, view)
        except Exception as error:
            shown = text[:MOST_SHOWN], raw[:MOST_SHOWN].hex(), values
            raise Finding(f"{view.name}: {shown!r}") from error

    def _take_json(self, body: bytes, values: Sequence[str], view: PipelineView) -> None:
        dialect = Oip(view, values, "")
        try:
            request = dialect.read(body)
        except BadRequest as error:
            _check_words(error)
            self._refuse_again(body, values, view)
            return
        for again in (Oip(view, values, ""), Oip(_view(view.inputs), values, "")):
            found = again.read(body)
            assert (found.inputs, found.timeout_s) == (request.inputs, request.timeout_s)
        answered = self._echo(request, body, view, lambda parts: dialect.write(parts, "1"))
        if answered is None:
            return
        reply, by_name = answered
        whole = _joined(reply)
        end = int(reply.extra.partition(": ")[2] or len(whole))
        for output in json.loads(whole[:end])["outputs"]:
            if "data" not in output:
                size_bytes = output["parameters"]["binary_data_size"]
                assert whole[end : end + size_bytes] == by_name[output["name"]].data
                end += size_bytes
        assert end == len(whole)

    def _refuse_again(self, body: bytes, values: Sequence[str], view: PipelineView) -> None:
        with suppress(BadRequest):
            Oip(view, values, "").read(body)
            raise AssertionError("at first it was refused")

    def _good_json(self, declared: Declared) -> tuple[bytes, bytes]:
        rng = self._rng
        inputs = []
        raw = b""
        for name, datatype, shape, elements in self._tensors(declared):
            tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
            if rng.random() < 0.6:
                data = _bytes_of(datatype, elements)
                tensor["parameters"] = {"binary_data_size": len(data)}
                raw += data
            else:
                tensor["data"] = elements
            inputs.append(tensor)
        request: dict[str, Any] = {"inputs": inputs}
        if rng.random() < 0.5:
            request["parameters"] = {"binary_data_output": rng.random() < 0.8}
        if rng.random() < 0.2:
            request["outputs"] = [{"name": spec.name} for spec in declared.tensors]
        if rng.random() < 0.3:
            request = self._mutator.value(request)
        return json.dumps(request, default=str).encode(), raw

    # -------------------------------------------------------------- both

    def _changed(self, data: bytes) -> bytes:
        return self._mutator.data(data) if self._rng.random() < 0.6 else data

    def _tensors(self, declared: Declared) -> list[tuple[str, str, list[int], list[Any]]]:
        """Name, datatype, shape and elements of what may fit, most of the time."""
        rng = self._rng
        found = []
        for spec in declared.tensors:
            shape = [rng.choice((0, 1, 1, 2, 3)) if n == -1 else n for n in spec.shape]
            count = int(np.prod(shape, dtype=int))
            some: Sequence[Any] = ("a", "", "grüße") if spec.datatype == "BYTES" else (0, 1, 1, 2)
            elements = [rng.choice(some) for _ in range(count)]
            if elements and rng.random() < 0.05:
                elements[rng.randrange(count)] = rng.choice(ODD)
            found.append((spec.name, spec.datatype, shape, elements))
        return found

    def _echo(
        self,
        request: TensorRequest,
        body: bytes,
        view: PipelineView,
        write: Callable[[Sequence[TensorPart]], Reply],
    ) -> tuple[Reply, dict[str, TensorPart]] | None:
        """What a worker makes of it, and the answer; None where the worker or the client's wishes
        refuse it."""
        payload = tensor_payload(request.inputs, body, None, self._memory, request.names)
        packed: Buffer = payload if isinstance(payload, bytes) else payload.body
        buffers: Any = [] if isinstance(payload, bytes) else payload.buffers
        try:
            arrays = arrays_of_parts(unpack_tensors(packed, buffers), view.inputs.tensors)
        except (BadBody, Mismatch):
            return None
        parts = parts_of_result(arrays, view.outputs.tensors)
        try:
            reply = write(parts)
        except BadRequest as error:
            _check_words(error)
            return None
        self._budget.taken += 1
        return reply, {part.name: part for part in parts}


def _view(side: Declared) -> PipelineView:
    signature = encode_signature(Signature(side, side))
    return PipelineView(PipelineInfo("m", [StageInfo("s", signature=signature)]))


def _check_words(error: BadRequest) -> None:
    words = str(error)
    assert words
    assert len(words) < MOST_SAID, f"it says {len(words)} characters"


def _joined(reply: Reply) -> bytes:
    return b"".join(reply.pieces)


def _bytes_of(datatype: str, elements: Sequence[Any]) -> bytes:
    """Raw values; of elements that are none of this datatype, some of as many bytes."""
    if datatype == "BYTES":
        return join_elements([str(each).encode("utf-8", "replace") for each in elements])
    size_bytes, code, _ = DATATYPES[datatype]
    try:
        with np.errstate(over="ignore"):
            return np.array(elements, f"<{code or 'u2'}").tobytes()
    except (TypeError, ValueError, OverflowError):
        return b"\x01" * (size_bytes * len(elements))
