"""A request at a route of MOSEC's kind: the call is the same, what is said to its client is not."""

import time

from broker.wire import frames
from broker.wire.errors import ErrorCode
from broker.wire.messages import Answer, Blob, Failure, Streamed, SubmitItem, Value
from gateway import deflate
from gateway.call import JSON, Call
from gateway.headers import accepts, accepts_gzip, response_value
from gateway.memory import Stored
from gateway.mosec.events import MosecEvents
from gateway.mosec.problems import NO_DATA, TEXT_TYPE, event_text, is_told_by_event, text_problem
from gateway.mosec.site import Site
from gateway.request import CLIENT_GONE, NO_STREAMS
from gateway.streams import EVENTS_TYPE

_UNSHRINKABLE = ("image/", "audio/", "video/", "application/grpc")


class MosecCall(Call):
    """See the module."""

    @property
    def _site(self) -> Site:
        return self._service.mosec

    @property
    def _endpoint(self) -> str:
        return self._head.path.partition("?")[0]

    # -------------------------------------------------------------- the body

    def run_whole(self, body: bytes) -> None:
        """See `connection.Call`; an empty body is none."""
        if body:
            super().run_whole(body)
        else:
            self._refuse_empty()

    def run(self, body: bytes | Stored) -> None:
        """See `Call`."""
        if isinstance(body, Stored) or body:
            super().run(body)
        else:
            self._refuse_empty()

    def _refuse_empty(self) -> None:
        self.refuse(Failure(ErrorCode.BAD_BODY, NO_DATA, 400))

    # -------------------------------------------------------------- ends

    def _settle_result(  # noqa: PLR0917
        self,
        answer: Answer,
        item: SubmitItem,
        body: frames.Buffer | list[frames.Buffer],
        size_bytes: int,
        content_type: str,
        extra: bytes,
    ) -> None:
        service, site = self._service, self._site
        least_bytes = service.compress_bytes
        if (
            least_bytes
            and size_bytes >= least_bytes
            and not extra
            and self._compresses(answer, item, body, size_bytes, content_type)
        ):
            return
        self._done = True
        version, spans, view = answer.version, answer.spans, self.view
        timing = view.server_timing(spans) if spans and view is not None else ""
        head = site.heads.result(
            response_value(content_type) if content_type else JSON,
            size_bytes,
            self.request_id,
            response_value(version),
            timing,
        )
        self._connection.answer(head + extra, body)
        site.answered(self._endpoint, time.monotonic() - self.arrived_s)
        service.books.succeeded(self, version, item.payload, timing, size_bytes, spans)

    def _coding(self, content_type: str, accepted: str) -> deflate.Coding | None:
        if content_type.startswith(_UNSHRINKABLE):
            return None
        if accepts(accepted, "zstd"):
            return deflate.ZSTD
        return deflate.GZIP if accepts_gzip(accepted) else None

    def refuse(self, failure: Failure, version: str = "") -> None:
        """See `Call`."""
        if self._done:
            return
        said = text_problem(failure)
        service, site = self._service, self._site
        detail = failure.error_id or failure.message
        if self._events is None and self._tells(failure):
            self._events = self._begin_stream(version, [], time.monotonic())
        self._leave()
        if self._events is not None:
            self._events.error(event_text(said).encode("utf-8", "replace"))
            self._events = None
            site.refused(self._endpoint, 200)
            service.books.ended(self, version, said.status, code=said.code, detail=detail)
            self._connection.finish()
            return
        size_bytes = len(said.body)
        head = site.heads.plain(
            said.status,
            size_bytes,
            content_type=TEXT_TYPE,
            request_id=self.request_id,
            extra=said.extra,
        )
        site.refused(self._endpoint, said.status)
        service.books.ended(
            self, version, said.status, code=said.code, detail=detail, size_bytes=size_bytes
        )
        self._connection.answer(head, said.body)

    def _tells(self, failure: Failure) -> bool:
        """By an event, with status 200."""
        view = self.view
        if view is None or view.mosec is None or not view.mosec.streams:
            return False
        return self.seq > 0 and is_told_by_event(failure)

    def gone(self) -> None:
        """See `connection.Call`."""
        if not self._done:
            self._site.refused(self._endpoint, CLIENT_GONE)
        super().gone()

    # -------------------------------------------------------------- streams

    def stream(self, value: Value) -> None:
        """See `Call`: values are text."""
        if self._done:
            return
        payload = value.payload
        if type(payload) is Blob and payload.content_type:
            self.fail(ErrorCode.BAD_REQUEST, NO_STREAMS)
            return
        now = time.monotonic()
        if self._events is None:
            self._events = self._begin_stream(value.version, value.spans, now)
        self._events.value(payload, now)

    def _begin_stream(self, version: str, spans: list[float], now: float) -> MosecEvents:
        service = self._service
        timing = self.view.server_timing(spans) if self.view and spans else ""
        head = self._site.heads.stream(
            EVENTS_TYPE, self.request_id, response_value(version), timing
        )
        self._connection.begin(head)
        service.streaming.add(self)

        def credit(values: int) -> None:
            service.credit(self.seq, values)

        return MosecEvents(self._connection, credit, is_ndjson=False, now=now)

    def _end_stream(self, answer: Answer, outcome: Streamed, item: SubmitItem) -> None:
        super()._end_stream(answer, outcome, item)
        self._site.answered(self._endpoint, time.monotonic() - self.arrived_s)
