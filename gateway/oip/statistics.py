"""What has become of requests, as this protocol counts it, from the broker's own figures.

Pure. They are of all gateways together, and begin anew with each broker.
"""

from typing import Any

import msgspec
from msgspec import Struct

from gateway.catalog import CatalogView
from gateway.documents import Document, NoSuch, find_model, refused
from gateway.oip.routes import OipRoute


class _Batches(Struct):
    count: int = 0
    run_s: float = 0.0


class _Tally(Struct):
    answered: int = 0
    failed: int = 0
    answered_queue_s: float = 0.0
    answered_run_s: float = 0.0
    failed_s: float = 0.0
    batches: int = 0
    by_size: dict[int, _Batches] = {}
    last_ago_s: float | None = None


class _Pipeline(Struct):
    tallies: dict[str, _Tally] = {}


class _Status(Struct):
    """The part of a broker's status that is read here."""

    pipelines: dict[str, _Pipeline] = {}


_decode = msgspec.json.Decoder(_Status).decode


def statistics(route: OipRoute, view: CatalogView, status: bytes, unix_s: float) -> Document:
    """Of one model, or of all: `status` is the broker's, in JSON, and `unix_s` the time of day."""
    try:
        if route.model:
            find_model(view, route.model, route.version)
    except NoSuch as error:
        return refused(404, str(error))
    try:
        pipelines = _decode(status).pipelines
    except msgspec.MsgspecError as error:
        return refused(503, f"the broker's status cannot be read: {error}")
    stats = [
        _model(
            name, version, pipelines.get(name, _Pipeline()).tallies.get(version, _Tally()), unix_s
        )
        for name, model in view.pipelines.items()
        if route.model in ("", name)
        for version in model.versions
        if route.version == "" or version == model.version_of(route.version)
    ]
    return Document(200, {"model_stats": stats})


def _model(name: str, version: str, tally: _Tally, unix_s: float) -> dict[str, Any]:
    """Decoding and encoding are part of a batch's run: they are not told apart from `forward`."""
    count = tally.answered
    last_s = 0.0 if tally.last_ago_s is None else unix_s - tally.last_ago_s
    return {
        "name": name,
        "version": version,
        "last_inference": round(last_s * 1e3),
        "inference_count": count,
        "execution_count": tally.batches,
        "inference_stats": {
            "success": _duration(count, tally.answered_queue_s + tally.answered_run_s),
            "fail": _duration(tally.failed, tally.failed_s),
            "queue": _duration(count, tally.answered_queue_s),
            "compute_input": _duration(count, 0.0),
            "compute_infer": _duration(count, tally.answered_run_s),
            "compute_output": _duration(count, 0.0),
            "cache_hit": _duration(0, 0.0),
            "cache_miss": _duration(0, 0.0),
        },
        "response_stats": {},
        "batch_stats": [
            {
                "batch_size": size,
                "compute_input": _duration(batches.count, 0.0),
                "compute_infer": _duration(batches.count, batches.run_s),
                "compute_output": _duration(batches.count, 0.0),
            }
            for size, batches in sorted(tally.by_size.items())
        ],
        "memory_usage": [],
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": round(seconds * 1e9)}
