"""The service `inference.GRPCInferenceService`: its methods, in terms of what HTTP has already."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import grpc
import msgspec
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError, Message

from broker.wire.errors import ErrorCode
from broker.wire.messages import Priority, Report
from broker.wire.trace import tracestate
from gateway.dialect import BadRequest
from gateway.documents import NO_CATALOG, Document
from gateway.headers import BadHeader, clean
from gateway.oip.routes import Asked, OipRoute
from gateway.pages import Pages
from gateway.problems import grpc_code
from gateway.rpc import messages
from gateway.rpc.call import RpcCall, Sink
from gateway.rpc.caller import Caller
from gateway.rpc.dialect import RpcOip
from gateway.rpc.exchange import Exchange
from gateway.rpc.intake import Intake, NoRoom
from gateway.rpc.once import Once
from gateway.rpc.requests import InferMessage
from gateway.service import Service

ERRORS_AS_STATUS = "triton_grpc_error"


class _Page(NamedTuple):
    """A method that is answered with a document, as a path is over HTTP."""

    asked: Asked
    request: Any
    response: Any
    field: str = ""
    """Where in the response the document goes; "" where it is the whole."""
    is_question: bool = False
    """Whether "not ready" is an answer and no error."""


_PAGES = {
    "ServerLive": _Page(Asked.LIVE, messages.ServerLiveRequest, messages.ServerLiveResponse),
    "ServerReady": _Page(
        Asked.READY, messages.ServerReadyRequest, messages.ServerReadyResponse, is_question=True
    ),
    "ModelReady": _Page(
        Asked.MODEL_READY, messages.ModelReadyRequest, messages.ModelReadyResponse, is_question=True
    ),
    "ServerMetadata": _Page(
        Asked.SERVER, messages.ServerMetadataRequest, messages.ServerMetadataResponse
    ),
    "ModelMetadata": _Page(
        Asked.MODEL, messages.ModelMetadataRequest, messages.ModelMetadataResponse
    ),
    "ModelConfig": _Page(
        Asked.CONFIG, messages.ModelConfigRequest, messages.ModelConfigResponse, "config"
    ),
    "ModelStatistics": _Page(
        Asked.STATS, messages.ModelStatisticsRequest, messages.ModelStatisticsResponse
    ),
    "RepositoryIndex": _Page(
        Asked.INDEX, messages.RepositoryIndexRequest, messages.RepositoryIndexResponse, "models"
    ),
    "RepositoryModelLoad": _Page(
        Asked.CHANGE, messages.RepositoryModelLoadRequest, messages.RepositoryModelLoadResponse
    ),
    "RepositoryModelUnload": _Page(
        Asked.CHANGE, messages.RepositoryModelUnloadRequest, messages.RepositoryModelUnloadResponse
    ),
}


class InferenceService:
    """See the module. Messages come and go as bytes: see `gateway.rpc.wire`."""

    def __init__(self, service: Service, pages: Pages, intake: Intake) -> None:
        self._service = service
        self._pages = pages
        self._intake = intake
        self._exchanges: set[Exchange] = set()

    def handlers(self) -> Mapping[str, Any]:
        """By method, for gRPC: as streams of requests, which are not read before we ask."""
        unary = grpc.stream_unary_rpc_method_handler
        return {
            **{name: unary(self._page_method(page)) for name, page in _PAGES.items()},
            "ModelInfer": unary(self._infer),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self._stream_infer),
        }

    def drain(self) -> None:
        """Streams read no more; whoever keeps one open is told to go elsewhere."""
        for exchange in self._exchanges:
            exchange.drain()

    # -------------------------------------------------------------- inference

    async def _message(self, context: Any) -> bytes:
        """Of a call that brings just one."""
        try:
            return await self._intake.read(context)
        except NoRoom as error:
            await context.abort(error.code, str(error))
            raise AssertionError("abort raises") from None

    async def _infer(self, _requests: Any, context: Any) -> bytes:
        once = Once(context)
        self._begin(await self._message(context), context, once)
        return await once.result()

    def _begin(self, body: bytes, context: Any, once: Once) -> None:
        """Apart, so that nothing holds the message any longer: it may wait in shared memory."""
        call = self._open(body, Caller(context), once)
        if call is not None:
            call.run(body)

    async def _stream_infer(self, _requests: Any, context: Any) -> None:
        caller = Caller(context)

        def accept(body: bytes, sink: Exchange) -> RpcCall | None:
            return self._open(body, caller, sink)

        errors_as_status = caller.metadata.get(ERRORS_AS_STATUS, "").lower() in ("true", "1")
        exchange = Exchange(context, self._intake, accept, errors_as_status=errors_as_status)
        self._exchanges.add(exchange)
        try:
            await exchange.run()
        finally:
            self._exchanges.discard(exchange)

    def _open(self, body: bytes, caller: Caller, sink: Sink) -> RpcCall | None:
        """The call of a request; None where it is answered already."""
        service = self._service
        try:
            message, fault = InferMessage(body), ""
        except BadRequest as error:
            message, fault = None, str(error)
        name = version = ""
        if message is not None:
            name = clean(message.message.model_name)
            version = clean(message.message.model_version)
        view = service.view.pipelines.get(name) if service.view is not None else None
        if view is not None:
            version = view.version_of(version)
        oip = RpcOip(view, message, on_stream=sink.takes_streams)
        now = time.monotonic()
        trace = service.begin_trace(
            caller.get("traceparent"),
            tracestate([caller.get("tracestate")]),
            "grpc",
            caller.address,
            now,
        )
        if trace is not None:
            caller = caller.in_trace(trace.context.header(), trace.tracestate)
        call = RpcCall(
            service,
            now,
            caller.request_id or service.new_id(),
            service.table.bounds.of(name),
            caller.client,
            int(Priority.NORMAL),
            name,
            version,
            view,
            oip,
            sink,
            caller,
            oip,
        )
        call.trace = trace
        sink.begin(call)
        if message is None:
            call.fail(ErrorCode.BAD_REQUEST, fault)
        elif service.view is None:
            call.fail(ErrorCode.NOT_READY, NO_CATALOG)
        elif view is None:
            call.refuse(self._pages.unknown(name))
        elif self._accepts(call, caller):
            return call
        return None

    def _accepts(self, call: RpcCall, caller: Caller) -> bool:
        service = self._service
        try:
            call.asked_s = caller.asked_s()
            priority = caller.priority()
        except BadHeader as error:
            call.fail(ErrorCode.BAD_HEADER, str(error))
            return False
        if priority is not None:
            call.priority = priority
        service.set_due(call)
        lack = call.view.lack_of_tensors() if call.view is not None else None
        if lack is not None:
            call.refuse(lack)
            return False
        if service.draining:
            call.fail(ErrorCode.DRAINING, "this gateway is shutting down")
            return False
        return True

    # -------------------------------------------------------------- documents

    def _page_method(self, page: _Page) -> Callable[[Any, Any], Awaitable[bytes]]:
        async def method(_requests: Any, context: Any) -> bytes:
            body = await self._message(context)
            try:
                request = page.request.FromString(body)
            except DecodeError:
                name = page.request.DESCRIPTOR.name
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the bytes are no {name}")
            said = await self._document(_route(page.asked, request))
            if said.status == 200 or page.is_question:
                return _filled(page, said).SerializeToString()
            code = grpc.StatusCode[grpc_code(said.status)]
            await context.abort(code, said.content["error"])
            raise AssertionError("abort raises")

        return method

    async def _document(self, route: OipRoute) -> Document:
        if route.asked is not Asked.STATS or self._service.view is None:
            return self._pages.oip(route)
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def answered(report: Report | None) -> None:
            if not answer.done():  # else the client has gone
                answer.set_result(report.body if report is not None else None)

        self._service.asker.status(answered, time.monotonic())
        return self._pages.oip_statistics(route, await answer)


def _route(asked: Asked, request: Any) -> OipRoute:
    if asked is Asked.INDEX:
        return OipRoute(asked, only_ready=request.ready)
    names = request.DESCRIPTOR.fields_by_name
    if "version" in names:
        return OipRoute(asked, clean(request.name), clean(request.version))
    return OipRoute(asked)


def _filled(page: _Page, said: Document) -> Message:
    """The response; what is in the document and not in the message is left out."""
    content = {page.field: said.content} if page.field else said.content
    message: Message = ParseDict(
        msgspec.to_builtins(content), page.response(), ignore_unknown_fields=True
    )
    return message
