"""What the OpenAPI document refers to: the schemas of pages and errors, and their records. Pure."""

from typing import Any

Object = dict[str, Any]


def record(required: Object, **optional: Object) -> Object:
    """The schema of an object with these fields, all but the optional ones required."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
    }


STRING: Object = {"type": "string"}
STRINGS: Object = {"type": "array", "items": STRING}
_COUNT: Object = {"type": "integer", "minimum": 0}
_BOOLEAN: Object = {"type": "boolean"}
RETRY_AFTER: Object = {
    "description": "Seconds after which the same request may succeed.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
_ERROR = record({"error": record({"code": STRING, "message": STRING, "request_id": STRING})})
_STAGE = record(
    {
        "name": STRING,
        "ready": _BOOLEAN,
        "reason": STRING,
        "workers": _COUNT,
        "ready_workers": _COUNT,
        "max_batch_size": _COUNT,
        "versions": STRINGS,
    }
)
_PIPELINE = record(
    {
        "name": STRING,
        "ready": _BOOLEAN,
        "chain": STRINGS,
        "versions": STRINGS,
        "traffic": {
            "type": "array",
            "items": record({"version": STRING, "state": STRING, "share": {"type": "number"}}),
        },
        "labels": {"type": "object", "additionalProperties": STRING},
        "timeout_s": {"type": "number"},
        "stages": {"type": "array", "items": {"$ref": "#/components/schemas/Stage"}},
    }
)
SCHEMAS: Object = {
    "Error": _ERROR,
    "TextError": record({"error": STRING}),
    "Stage": _STAGE,
    "Pipeline": _PIPELINE,
    "Pipelines": record(
        {"pipelines": {"type": "array", "items": {"$ref": "#/components/schemas/Pipeline"}}}
    ),
    "Alive": record({"alive": _BOOLEAN}),
    "Ready": record({"ready": _BOOLEAN}),
    "NotReady": record(
        {"ready": _BOOLEAN, "reasons": STRINGS, "error": _ERROR["properties"]["error"]}
    ),
}
