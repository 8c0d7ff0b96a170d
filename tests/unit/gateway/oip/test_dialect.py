"""One request in this protocol, around its JSON: compression, priorities, errors."""

import gzip
import json
import zlib

import pytest

from broker.payload.signature import Declared, Signature, TensorSpec, encode_signature
from broker.payload.tensor_bodies import TensorPart
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, PipelineInfo, Priority, StageInfo
from gateway.catalog import PipelineView
from gateway.dialect import BadRequest
from gateway.oip.dialect import Oip

SIDE = Declared([TensorSpec("x", "UINT8", (-1,))])
STAGE = StageInfo("s", signature=encode_signature(Signature(SIDE, SIDE)))
MODEL = PipelineView(PipelineInfo("m", [STAGE]))
PART = TensorPart("x", "UINT8", [4000], bytes(4000))


def body(**parameters: object) -> bytes:
    tensor = {"name": "x", "datatype": "UINT8", "shape": [1], "data": [1]}
    return json.dumps({"inputs": [tensor], "parameters": parameters}).encode()


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("", ""),
        ("br", ""),
        ("gzip", "gzip"),
        ("br, Deflate;q=0.5, gzip", "deflate"),
        ("gzip;q=0, deflate", "deflate"),
        ("gzip; q=0.0", ""),
    ],
)
def test_answers_are_compressed_as_the_client_has_it(accepted: str, encoding: str) -> None:
    dialect = Oip(MODEL, [], accepted)
    dialect.read(body(binary_data_output=True))
    reply = dialect.write([PART], "1")
    assert ("Content-Encoding" in reply.extra) == bool(encoding)
    whole = b"".join(reply.pieces)
    if encoding:
        whole = gzip.decompress(whole) if encoding == "gzip" else zlib.decompress(whole)
    length = int(reply.extra.partition("Length: ")[2].partition("\r\n")[0])
    assert whole[length:] == PART.data
    assert json.loads(whole[:length])["model_name"] == "m"


@pytest.mark.parametrize(
    ("number", "priority"),
    [(0, None), (1, Priority.HIGH), (2, Priority.NORMAL), (3, Priority.LOW), (9, Priority.LOW)],
)
def test_priorities(number: int, priority: Priority | None) -> None:
    request = Oip(MODEL, [], "").read(body(priority=number, timeout=1500))
    assert (request.priority, request.timeout_s) == (priority, 0.0015)


def test_what_takes_long_is_told() -> None:
    large = [TensorPart("x", "UINT8", [1 << 20], bytes(1 << 20))]
    plain, packed = Oip(MODEL, [], ""), Oip(MODEL, [], "gzip")
    plain.read(body(binary_data_output=True))
    packed.read(body(binary_data_output=True))
    assert plain.is_quick(large)
    assert not packed.is_quick(large)
    plain.read(body())
    assert not plain.is_quick(large)


def test_errors() -> None:
    failure = Failure(ErrorCode.NOT_READY, "why", retry_after_s=2.0)
    said = Oip(None, [], "").problem(failure, "id")
    assert (said.status, json.loads(said.body)) == (503, {"error": "why"})
    assert "Retry-After: 2" in said.extra


def test_declarations_outlive_their_workers() -> None:
    gone = PipelineView(PipelineInfo("m", [StageInfo("s")]))
    lack = gone.lack_of_tensors()
    assert lack is not None
    assert lack.code == ErrorCode.NOT_READY
    gone.take_over(MODEL)
    assert gone.lack_of_tensors() is None
    undeclared = PipelineView(PipelineInfo("m", [StageInfo("s", workers=1)]))
    undeclared.take_over(MODEL)
    lack = undeclared.lack_of_tensors()
    assert lack is not None
    assert lack.code == ErrorCode.BAD_REQUEST


def test_a_header_that_lies_is_found_where_the_json_is_known() -> None:
    view = PipelineView(PipelineInfo("m", [STAGE]))
    tensor = {
        "name": "x",
        "datatype": "UINT8",
        "shape": [0],
        "parameters": {"binary_data_size": 0},
    }
    text = json.dumps({"inputs": [tensor]}).encode()
    for _ in range(2):
        Oip(view, [str(len(text))], "").read(text)
    with pytest.raises(BadRequest, match="and the body has"):
        Oip(view, [str(len(text) + 1)], "").read(text)
