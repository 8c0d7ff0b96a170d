"""The service `grpc.health.v1.Health`: readiness as it is now, of the whole or of one pipeline."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import grpc
from grpc_health.v1 import health_pb2

from gateway.rpc.messages import SERVICE as INFERENCE

SERVICE = "grpc.health.v1.Health"
WHOLE = ("", INFERENCE)
"""Names that stand for everything that is served."""

ReasonsOf: TypeAlias = Callable[[str], list[str] | None]
"""Why a pipeline ("" for all) is not ready; None where there is no such pipeline."""

_Response = health_pb2.HealthCheckResponse


class Health:
    """`tick` a few times a second, for those that watch."""

    def __init__(self, reasons_of: ReasonsOf) -> None:
        self._reasons_of = reasons_of
        self._ticks: set[asyncio.Event] = set()
        self._is_over = False

    def handlers(self) -> Mapping[str, Any]:
        """By method, for gRPC."""
        of_messages = {
            "request_deserializer": health_pb2.HealthCheckRequest.FromString,
            "response_serializer": _Response.SerializeToString,
        }
        return {
            "Check": grpc.unary_unary_rpc_method_handler(self._check, **of_messages),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, **of_messages),
        }

    async def _check(self, request: Any, context: Any) -> Any:
        status = self._status(request.service)
        if status == _Response.SERVICE_UNKNOWN:
            text = f"there is no pipeline {request.service[:200]!r}"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        return _Response(status=status)

    async def _watch(self, request: Any, context: Any) -> None:
        """To the end of the client's patience, or of ours."""
        tick = asyncio.Event()
        self._ticks.add(tick)
        told = None
        try:
            while True:
                tick.clear()
                status = self._status(request.service)
                if status != told:
                    told = status
                    await context.write(_Response(status=status))
                if self._is_over:
                    return
                await tick.wait()
        finally:
            self._ticks.discard(tick)

    def _status(self, name: str) -> int:
        reasons = self._reasons_of("" if name in WHOLE else name)
        if reasons is None:
            return int(_Response.SERVICE_UNKNOWN)
        return int(_Response.NOT_SERVING if reasons else _Response.SERVING)

    def tick(self) -> None:
        """See the class."""
        for tick in self._ticks:
            tick.set()

    def drain(self) -> None:
        """Those that watch are told, and let go."""
        self._is_over = True
        self.tick()
