"""What the gateway answers by itself, or with the broker's word, and no worker's: its pages, and
what is no request, or one connection too many.

Requests for inference never come here.
"""

from collections.abc import Callable

from broker.wire.errors import ErrorCode
from broker.wire.messages import Report
from gateway.admin import Guard
from gateway.admin_call import Admin, AdminCall
from gateway.asker import BrokerAsker
from gateway.asking import Asking
from gateway.call import JSON
from gateway.connection import Connection
from gateway.cors import Cors
from gateway.head import Head
from gateway.journal import Journal
from gateway.memory import UploadMemory
from gateway.metrics import Metrics
from gateway.oip.routes import Asked, OipRoute
from gateway.options import GatewayOptions
from gateway.pages import Page, Pages
from gateway.problems import problem, refusal, text_problem
from gateway.responses import Heads
from gateway.routes import Kind, Route
from gateway.ui.feed import Feed, GatewayState, Viewer


class OwnAnswers:
    """See the module."""

    def __init__(
        self,
        options: GatewayOptions,
        *,
        heads: Heads,
        pages: Pages,
        metrics: Metrics,
        journal: Journal,
        memory: UploadMemory,
        asker: BrokerAsker,
        state: Callable[[float, int], GatewayState],
        new_id: Callable[[], str],
    ) -> None:
        """`state` is the one of `Feed`."""
        self._heads = heads
        self._pages = pages
        self._metrics = metrics
        self._journal = journal
        self._memory = memory
        self._asker = asker
        self._new_id = new_id
        self._cors = Cors(options.cors_origins) if options.cors_origins else None
        guard = Guard(options.admin_token)
        self._admin = Admin(
            guard=guard,
            is_unix=bool(options.uds),
            asker=asker,
            memory=memory,
            send=self._send_privately,
        )
        self.feed = Feed(
            guard=guard,
            is_unix=bool(options.uds),
            asker=asker,
            memory=memory,
            send=self._send_privately,
            state=state,
        )

    # -------------------------------------------------------------- pages

    def answer(self, connection: Connection, head: Head, route: Route) -> None:
        """Answer with the page at this route, which needs no body and nobody's word."""
        if self._cors is not None and head.method == "OPTIONS" and route.allow:
            lines = self._cors.preflight(head.headers, route.allow)
            if lines:
                self._note(connection, head, 204, "")
                connection.answer(self._heads.empty(lines), b"")
                return
        request_id = self._request_id(head)
        accept = head.accept if route.kind is Kind.METRICS else ""
        page = self._pages.answer(route, request_id, accept)
        self.send(connection, head, page, request_id)

    def open(
        self, connection: Connection, head: Head, now: float, route: Route
    ) -> Asking | AdminCall | Viewer | None:
        """A page that takes a body, or needs the broker's word."""
        if route.admin is not None:
            request_id = self._request_id(head)
            return self._admin.open(connection, head, now, route.admin, request_id)
        if route.kind is Kind.UI_EVENTS:
            return self.feed.open(connection, head, self._heads, self._request_id(head))
        assert route.oip is not None
        if route.oip.asked is Asked.INDEX:
            return self._ask_index(connection, head, route.oip)
        if route.oip.asked is Asked.STATS and self._pages.view is not None:
            self._answer_statistics(connection, head, now, route.oip)
        else:
            self.answer(connection, head, route)
        return None

    def _answer_statistics(
        self, connection: Connection, head: Head, now: float, route: OipRoute
    ) -> None:
        """The broker has the figures: it is asked for them."""
        request_id = self._request_id(head)

        def answered(report: Report | None) -> None:
            page = self._pages.statistics(route, report.body if report is not None else None)
            self.send(connection, head, page, request_id)

        self._asker.status(answered, now)

    def _ask_index(self, connection: Connection, head: Head, route: OipRoute) -> Asking:
        request_id = self._request_id(head)

        def answer(body: bytes) -> None:
            self.send(connection, head, self._pages.index(route, body), request_id)

        def refuse(code: ErrorCode, text: str) -> None:
            said = text_problem(refusal(code, text), request_id)
            page = Page(said.status, JSON, said.body, said.extra)
            self.send(connection, head, page, request_id)

        return Asking(self._memory, answer, refuse)

    def send(
        self,
        connection: Connection,
        asked: Head,
        page: Page,
        request_id: str,
        heads: Heads | None = None,
    ) -> None:
        """Answer with a page; `heads` where they are of another kind."""
        self._note(connection, asked, page.status, request_id)
        connection.answer(self._head_of_page(page, request_id, heads), page.body)

    def _send_privately(
        self, connection: Connection, asked: Head, page: Page, request_id: str
    ) -> None:
        self._note(connection, asked, page.status, request_id)
        connection.answer_privately(self._head_of_page(page, request_id), page.body)

    def _note(self, connection: Connection, asked: Head, status: int, request_id: str) -> None:
        self._journal.page(
            method=asked.method,
            target=asked.path,
            status=status,
            request_id=request_id,
            client=connection.peer,
        )

    def _head_of_page(self, page: Page, request_id: str, heads: Heads | None = None) -> bytes:
        return (heads or self._heads).plain(
            page.status,
            len(page.body),
            content_type=page.content_type,
            request_id=request_id,
            extra=page.extra,
        )

    def _request_id(self, head: Head) -> str:
        return head.request_id or self._new_id()

    # -------------------------------------------------------------- what is no request

    def misread(self, connection: Connection, code: ErrorCode, message: str) -> None:
        """See `connection.Service`."""
        said = problem(refusal(code, message), request_id := self._new_id())
        self._metrics.count_misread(said.code, said.status)
        self._journal.page(method="", target=message, status=said.status)
        head = self._heads.plain(
            said.status, len(said.body), request_id=request_id, extra=said.extra
        )
        connection.answer(head, said.body, close=True)

    def turn_away(self, connection: Connection) -> None:
        """See `connection.Service`."""
        failure = refusal(ErrorCode.OVERLOADED, "this gateway has no room for another connection")
        said = problem(failure, request_id := self._new_id())
        self._metrics.turned_away += 1
        self._journal.turned_away(said.status)
        head = self._heads.plain(
            said.status, len(said.body), request_id=request_id, extra=said.extra
        )
        connection.answer(head, said.body, close=True)
