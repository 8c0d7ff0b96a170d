"""The document: what is in it for a catalog, and what declarations become."""

import msgspec
import pytest

from broker.payload.signature import Declared, Method, Signature, TensorSpec, encode_signature
from broker.wire.messages import PipelineInfo, StageInfo
from gateway import docs
from gateway.catalog import PipelineView
from gateway.openapi import document
from gateway.pages import Pages
from gateway.routes import Kind, find
from gateway.schemas import input_schema, output_schema, tensor_schema


class Declaring:
    """A stage that declares something."""

    def __init__(self, signature: bytes) -> None:
        self.signature = signature


def view(name: str = "digits", **changes: object) -> PipelineView:
    info = PipelineInfo(name, [StageInfo("a"), StageInfo("b")], headers=["X-Tenant"])
    for key, value in changes.items():
        setattr(info, key, value)
    return PipelineView(info)


def test_paths_are_those_that_are_served() -> None:
    served = document([view("a/b", routes=["/v1/x"]), view("c", versions=["", "2"])])
    assert set(served["paths"]) == {
        "/pipelines/a%2Fb",
        "/v1/x",
        "/pipelines/c",
        "/pipelines/c/versions/{version}",
        "/pipelines",
        "/livez",
        "/readyz",
        "/metrics",
    }
    assert "/inference" in document([view()])["paths"]
    assert set(document([])["paths"]) == {"/pipelines", "/livez", "/readyz", "/metrics"}
    parameters = served["paths"]["/pipelines/c/versions/{version}"]["post"]["parameters"]
    assert parameters[0]["schema"]["enum"] == ["2"]
    assert {each["name"] for each in parameters} >= {"X-Timeout-Ms", "X-Priority", "x-tenant"}


def test_models_of_tensorflow_serving_and_kserve_are_those_that_declare_tensors() -> None:
    side = Declared([TensorSpec("x", "BYTES", (-1, 2)), TensorSpec("s", "FP32", (-1,))])
    method = Method("m", "regress", "s")
    signature = encode_signature(Signature(side, side, [method]))
    served = document([view("d", stages=[StageInfo("a", signature=signature)]), view("e")])
    paths = {path for path in served["paths"] if path.startswith("/v1")}
    model = "/v1/models/d"
    assert paths == {model, f"{model}/metadata", f"{model}:predict", f"{model}:regress"}
    taken = served["paths"][f"{model}:predict"]["post"]["requestBody"]["content"]
    columns, rows = taken["application/json"]["schema"]["oneOf"]
    assert set(columns["properties"]["inputs"]["properties"]) == {"x", "s"}
    row = rows["properties"]["instances"]["items"]
    assert row["required"] == ["x", "s"]
    assert row["properties"]["s"] == {"type": "number", "description": "FP32 []"}
    assert row["properties"]["x"]["items"]["anyOf"][0] == {"type": "string"}


def test_operations_have_names_of_their_own() -> None:
    served = document([view("a", versions=["1"]), view("b", versions=["1"])])
    names = [each["operationId"] for path in served["paths"].values() for each in path.values()]
    assert len(names) == len(set(names)) == 10


def test_every_reference_leads_somewhere() -> None:
    served = document([view()])
    text = msgspec.json.encode(served).decode()
    references = {part.split('"')[0] for part in text.split('"$ref":"#/components/')[1:]}
    assert references
    for reference in references:
        group, name = reference.split("/")
        assert name in served["components"][group]


def test_an_image_is_a_file() -> None:
    content = document([view()])["paths"]["/pipelines/digits"]["post"]["requestBody"]["content"]
    for kind in ("image/png", "application/octet-stream"):
        assert content[kind]["schema"]["format"] == "binary"
    assert content["application/json"] == {"schema": {}}


def test_tensors() -> None:
    assert tensor_schema("FP32", [-1, 2], nullable=True) == {
        "type": "array",
        "items": {
            "type": "array",
            "items": {"type": ["number", "null"]},
            "minItems": 2,
            "maxItems": 2,
        },
        "description": "FP32 [-1, 2]",
    }
    assert tensor_schema("BOOL", [])["type"] == "boolean"
    assert tensor_schema("UINT8", [1])["items"] == {"type": "integer"}


def test_declarations() -> None:
    signature = msgspec.msgpack.encode(
        [[[["image", "FP32", [-1, 8]]], b""], [[], b'{"type": "string"}']]
    )
    stage = Declaring(signature)
    taken = input_schema(stage)  # type: ignore[arg-type]
    assert taken["required"] == ["image"]
    assert taken["properties"]["image"]["description"] == "FP32 [-1, 8]"
    assert output_schema(stage) == {"type": "string"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "signature", [b"", b"\xc1", msgspec.msgpack.encode([[[["a"]]]]), b"\x91" * 5000]
)
def test_what_declares_nothing(signature: bytes) -> None:
    assert input_schema(Declaring(signature)) == {}  # type: ignore[arg-type]
    broken = msgspec.msgpack.encode([[[], b"{"], [[], b"1"]])
    assert input_schema(Declaring(broken)) == output_schema(Declaring(broken)) == {}  # type: ignore[arg-type]


def test_the_files_of_the_page() -> None:
    pytest.importorskip("swagger_ui", reason="swagger-ui-py is an optional extra")
    page = docs.read("")
    assert page is not None
    for name in ("swagger-ui.css", "swagger-ui-bundle.js", "start.js", "favicon-32x32.png"):
        assert docs.read(name) is not None
        if name != "start.js":
            assert f"docs/{name}".encode() in page[1]
    assert b"//" not in page[1].replace(b"http-equiv", b"")
    for name in ("swagger-ui.js", "../core.py", "x"):
        assert docs.read(name) is None


def test_routes() -> None:
    assert find("GET", "/docs").kind is Kind.DOCS
    assert find("GET", "/docs/swagger-ui.css").name == "swagger-ui.css"
    assert find("GET", "/docs/a%2Fb").name == "a/b"
    assert find("POST", "/openapi.json").kind is Kind.WRONG_METHOD
    assert find("GET", "/docs/").kind is Kind.NOWHERE


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "read", lambda _name: None)
    monkeypatch.setattr(docs, "is_installed", lambda: False)
    page = Pages(None, None).answer(find("GET", "/docs"), "r")  # type: ignore[arg-type]
    assert page.status == 404
    assert b"pip install 'millstream[docs]'" in page.body
