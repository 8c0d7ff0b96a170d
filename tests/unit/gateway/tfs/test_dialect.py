"""Whatever a body is: it becomes inputs that fit the declaration, or a refusal with a reason."""

import gzip
import json
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from broker.payload.datatypes import DATATYPES
from broker.payload.nested import pack_elements, split_elements
from broker.payload.signature import (
    CLASSIFY,
    Declared,
    Method,
    Signature,
    TensorSpec,
    encode_signature,
)
from broker.payload.tensor_bodies import TensorPart
from broker.wire.messages import PipelineInfo, StageInfo
from gateway.catalog import PipelineView
from gateway.dialect import BadRequest
from gateway.tfs.dialect import Tfs
from gateway.tfs.routes import Asked, find

SIDE = Declared([TensorSpec("x", "FP32", (-1, 2)), TensorSpec("y", "BYTES", (-1,))])
SCORES = Declared([TensorSpec("scores", "FP32", (-1, -1))])
ONE = Declared([TensorSpec("x", "UINT8", (-1,))])


def model(inputs: Declared, outputs: Declared, *methods: Method) -> PipelineView:
    signature = encode_signature(Signature(inputs, outputs, list(methods)))
    return PipelineView(PipelineInfo("m", [StageInfo("s", signature=signature)]))


TWO = model(SIDE, SCORES, Method("m", CLASSIFY, "scores", labels=["a", "b"]))


def dialect(asked: Asked = Asked.PREDICT, view: PipelineView = TWO, **headers: str) -> Tfs:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Tfs(asked, view, CIMultiDictProxy(CIMultiDict(names)), compress_bytes=100)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=3)
    | st.just({"b64": "YQ=="}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "b64", "z"]), inner, max_size=3)
        | st.fixed_dictionaries({"x": st.lists(st.floats(width=32), max_size=2), "y": inner})
    ),
    max_leaves=8,
)
bodies = st.dictionaries(
    st.sampled_from(["instances", "inputs", "examples", "context", "signature_name"]),
    values | st.lists(values, max_size=3),
    min_size=1,
    max_size=2,
)


@given(st.sampled_from([Asked.PREDICT, Asked.CLASSIFY]), bodies, st.data())
def test_any_body_is_read_or_refused(asked: Asked, body: Any, data: st.DataObject) -> None:
    text = bytearray(json.dumps(body).encode())
    for _ in range(data.draw(st.sampled_from([0, 0, 1, 2]))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + 1] = data.draw(st.sampled_from([b"", b"\xff", b"NaN", b"[", b'"', b"1e999"]))
    try:
        request = dialect(asked).read(bytes(text))
    except BadRequest:
        return
    assert [each.name for each in request.inputs] == ["x", "y"]
    for each in request.inputs:
        spec = SIDE.spec(each.name)
        assert spec is not None
        spec.check_shape(each.shape)
        size_bytes = DATATYPES[each.datatype].size_bytes
        if size_bytes:
            assert len(each.data or b"") == prod(each.shape) * size_bytes
        else:
            assert len(split_elements(each.data or b"")) == prod(each.shape)


def test_depth_costs_nothing() -> None:
    for body in (b'{"inputs":', b'{"inputs":[NaN,', b'{"other":', b'{"other":[NaN,'):
        for opener in (b"[", b'{"a":'):
            with pytest.raises(BadRequest):
                dialect().read(body + opener * 100_000)


@pytest.mark.parametrize(("accepted", "is_smaller"), [("gzip", True), ("br, *", True), ("", False)])
def test_answers_are_compressed_where_that_is_wanted(accepted: str, is_smaller: bool) -> None:
    speaker = dialect(view=model(ONE, ONE), Accept_Encoding=accepted)
    speaker.read(b'{"instances": [1]}')
    reply = speaker.write([TensorPart("x", "UINT8", [500], bytes(500))], "1")
    whole = b"".join(reply.pieces)
    assert ("Content-Encoding: gzip\r\n" in reply.extra) is is_smaller
    assert json.loads(gzip.decompress(whole) if is_smaller else whole) == {"predictions": [0] * 500}


def test_what_takes_long_is_told() -> None:
    parts = [TensorPart("x", "UINT8", [20_000], bytes(20_000))]
    assert dialect().is_quick(parts)
    assert not dialect(Accept_Encoding="gzip").is_quick(parts)
    assert not dialect().is_quick(parts * 4)


def test_labels_that_are_not_as_many_as_scores() -> None:
    speaker = dialect(Asked.CLASSIFY)
    speaker.read(b'{"examples": [{"x": [1, 2], "y": "a"}]}')
    data = pack_elements([1.0, 2.0, 3.0], "FP32", [1, 3], "$")
    with pytest.raises(BadRequest, match="as many scores as labels"):
        speaker.write([TensorPart("scores", "FP32", [1, 3], data)], "1")


def test_lists_of_nothing_are_bounded() -> None:
    speaker = dialect()
    speaker.read(b'{"inputs": {"x": [], "y": []}}')
    with pytest.raises(BadRequest, match="too many empty lists"):
        speaker.write([TensorPart("scores", "FP32", [1 << 40, 0], b"")], "1")
    few = speaker.write([TensorPart("scores", "FP32", [2, 0], b"")], "1")
    assert few.pieces == [b'{"outputs":[[],[]]}']


@pytest.mark.parametrize(
    ("path", "asked", "about"),
    [
        ("models", Asked.MODELS, ("", "", "")),
        ("models/", Asked.MODELS, ("", "", "")),
        ("models/m", Asked.MODEL, ("m", "", "")),
        ("models/m/versions/2", Asked.MODEL, ("m", "2", "")),
        ("models/m/labels/l", Asked.MODEL, ("m", "", "l")),
        ("models/m/metadata", Asked.METADATA, ("m", "", "")),
        ("models/m/versions/2/metadata", Asked.METADATA, ("m", "2", "")),
        ("models/m:predict", Asked.WRONG_METHOD, ("", "", "")),
        ("models/m/versions/2/metadata:predict", Asked.NOWHERE, ("m", "2", "")),
        ("models/versions/2", Asked.NOWHERE, ("versions", "", "")),
        ("models//versions/2", Asked.NOWHERE, ("", "", "")),
        ("", Asked.NOWHERE, ("", "", "")),
    ],
)
def test_paths(path: str, asked: Asked, about: tuple[str, str, str]) -> None:
    route = find("GET", path.split("/"))
    assert (route.asked, (route.model, route.version, route.label)) == (asked, about)


@pytest.mark.parametrize("verb", ["predict", "classify", "regress", "explain"])
def test_verbs(verb: str) -> None:
    for path, about in (
        (f"models/m:{verb}", ("m", "", "")),
        (f"models/m/versions/2:{verb}", ("m", "2", "")),
        (f"models/m/labels/l:{verb}", ("m", "", "l")),
    ):
        route = find("POST", path.split("/"))
        assert route.asked is Asked[verb.upper()]
        assert (route.model, route.version, route.label) == about
