"""The gRPC port of a gateway: its services, its start and its end.

gRPC has a thread of its own that waits for its sockets; what comes is handled in the gateway's own
loop, whichever kind of loop that is, so that nothing here needs a lock.
"""

import asyncio
import time
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from gateway.pages import Pages
from gateway.rpc import health, messages
from gateway.rpc.health import Health
from gateway.rpc.inference import InferenceService
from gateway.rpc.intake import Intake, places_for
from gateway.service import Service

NOT_HERE = "this gateway has no shared memory regions, traces or log settings over this protocol"


class CannotListen(Exception):
    """The port cannot be had."""


class RpcServer:
    """See the module."""

    def __init__(
        self, service: Service, pages: Pages, *, max_body_bytes: int, body_timeout_s: float
    ) -> None:
        self._service = service
        self._intake = intake = Intake(places_for(max_body_bytes), body_timeout_s)
        self._inference = InferenceService(service, pages, intake)
        self._health = Health(pages.reasons_of)
        self._server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", max_body_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.http2.bdp_probe", 0),  # else much may come of what nobody has asked for
                ("grpc.so_reuseport", 0),  # else two gateways would share a port by mistake
            )
        )
        generic = grpc.method_handlers_generic_handler
        self._server.add_generic_rpc_handlers(
            (
                generic(messages.SERVICE, self._inference.handlers()),
                generic(health.SERVICE, self._health.handlers()),
                _Rest(),
            )
        )
        names = (messages.SERVICE, health.SERVICE, reflection.SERVICE_NAME)
        for file in (health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR):
            messages.register(file.serialized_pb)
        reflection.enable_server_reflection(names, self._server, messages.POOL)

    async def start(self, host: str, port: int) -> int:
        """The port that it got, where 0 asks for any. Raises CannotListen."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError:
            port = 0
        if not port:
            raise CannotListen(f"cannot listen on {address} for gRPC: it may be taken")
        await self._server.start()
        return port

    def tick(self) -> None:
        """A few times a second."""
        self._health.tick()
        if self._intake.tick(time.monotonic()):
            self._service.run_in_thread(self._intake.trim, lambda _done: None)

    async def stop(self, farewell_s: float, grace_s: float) -> None:
        """Refuse what is new; what is held may take `grace_s`.

        Calls are still taken for `farewell_s`, to be told why they are not answered: gRPC's own
        end would break those that are on their way.
        """
        self._inference.drain()
        self._health.drain()
        await asyncio.sleep(farewell_s)
        await self._server.stop(grace_s)


class _Rest:
    """What clients of Triton may ask beside what is served here."""

    def service(self, details: Any) -> Any:
        """As gRPC calls it, with the method's full name."""
        if not details.method.startswith(f"/{messages.SERVICE}/"):
            return None
        return grpc.stream_unary_rpc_method_handler(_refuse)  # its message is not read


async def _refuse(_requests: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, NOT_HERE)
