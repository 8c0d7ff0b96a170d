"""Requests made up from the document, right and wrong ones: no 5xx, and no answer that breaks it.

Two things are left out that are right, and that the document cannot say: deadlines too short to
keep, which are answered 503 or 504, and that a pipeline may reject a body that its type allows.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is for development")

from schemathesis import BaseSchema, Case, GenerationMode  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.core.result import Ok  # noqa: E402
from schemathesis.specs.openapi import checks  # noqa: E402

pytestmark = pytest.mark.system

EXAMPLES = 6
"""For each operation and mode: some seconds in all. With 400 it found nothing either."""
MODELS = ("flowers", "half")
"""Those that declare tensors."""
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.allow_header_conformance,
]


@pytest.fixture(scope="module")
def schema(url: str) -> BaseSchema:
    """The document that the gateway serves; loading it checks it."""
    schema: BaseSchema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    schema.validate()
    return schema


def operations(schema: BaseSchema) -> dict[str, Any]:
    """By method and path. One that cannot be read fails here."""
    found = []
    for each in schema.get_all_operations():
        assert isinstance(each, Ok), each.err()
        found.append(each.ok())
    return {operation.label: operation for operation in found}


def test_the_document_has_what_is_served(schema: BaseSchema) -> None:
    assert set(operations(schema)) == {
        "POST /pipelines/digits",
        "GET /pipelines/digits",
        "POST /pipelines/digits/versions/{version}",
        "POST /pipelines/echo",
        "GET /pipelines/echo",
        "POST /pipelines/echo/versions/{version}",
        *(f"{method} /pipelines/{name}" for name in MODELS for method in ("GET", "POST")),
        *(f"POST /pipelines/{name}/versions/{{version}}" for name in MODELS),
        *(f"GET /v1/models/{name}{page}" for name in MODELS for page in ("", "/metadata")),
        *(f"POST /v1/models/{name}:predict" for name in MODELS),
        "POST /v1/models/flowers:classify",
        "POST /v1/models/flowers:regress",
        "GET /pipelines",
        "GET /livez",
        "GET /readyz",
        "GET /metrics",
    }


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_answer_breaks_it(schema: BaseSchema, mode: GenerationMode) -> None:
    statuses = set()
    for operation in operations(schema).values():
        if mode is GenerationMode.NEGATIVE and operation.method == "get":
            continue  # there is nothing in it that could be wrong

        @seed(1)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def try_it(case: "Case[Any]") -> None:
            case.headers.pop("X-Timeout-Ms", None)
            response = case.call_and_validate(checks=CHECKS)
            statuses.add(response.status_code)

        try_it()
    assert 200 in statuses
    assert max(statuses) < 500
