"""The one answer of a ModelInfer."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc

from broker.payload.tensor_bodies import Buffer
from gateway.headers import response_value
from gateway.problems import Problem, grpc_code
from gateway.rpc.call import RpcCall


class Once:
    """A `Sink`."""

    takes_streams = False

    def __init__(self, context: Any) -> None:
        self._context = context
        self._answer: asyncio.Future[bytes | Problem] = asyncio.get_running_loop().create_future()
        self._call: RpcCall | None = None

    async def result(self) -> bytes:
        """The message to answer with; what there is instead of one ends the RPC."""
        try:
            said = await self._answer
        finally:
            if self._call is not None:
                self._call.gone()
        trailers = self._trailers()
        if isinstance(said, bytes):
            self._context.set_trailing_metadata(trailers)
            return said
        code = grpc.StatusCode[grpc_code(said.status)]
        await self._context.abort(code, said.body.decode(), trailers)
        raise AssertionError("abort raises")

    def _trailers(self) -> tuple[tuple[str, str], ...]:
        """The response headers of HTTP."""
        call = self._call
        if call is None:
            return ()
        trailers = [("x-request-id", call.request_id)]
        if call.answered_by:
            trailers.append(("x-model-version", response_value(call.answered_by)))
        if call.view is not None and call.spans:
            trailers.append(("server-timing", call.view.server_timing(call.spans)))
        return tuple(trailers)

    def begin(self, call: RpcCall) -> None:
        """See `Sink`."""
        self._call = call

    def send(self, call: RpcCall, pieces: Sequence[Buffer], size: int, *, is_last: bool) -> None:
        """See `Sink`."""
        self._settle(b"".join(pieces))

    def end(self, call: RpcCall) -> None:
        """See `Sink`: no stream is begun here."""

    def fail(self, call: RpcCall, said: Problem) -> None:
        """See `Sink`."""
        self._settle(said)

    def abort(self) -> None:
        """See `Sink`."""
        self._answer.cancel()

    def _settle(self, said: bytes | Problem) -> None:
        if not self._answer.done():  # else the client has gone
            self._answer.set_result(said)
