"""Requests below /admin, from head to answer: access, body, question, the broker's word.

Their answers never name an origin that may read them, whatever `--cors-origin` says.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, Report
from gateway import headers
from gateway.admin import (
    CHALLENGE,
    MAX_BODY_BYTES,
    AdminRoute,
    BadQuestion,
    Guard,
    from_body,
    from_query,
    is_json,
)
from gateway.body import Body
from gateway.connection import Connection
from gateway.head import Head
from gateway.memory import Stored, UploadMemory
from gateway.pages import Page
from gateway.problems import problem, refusal
from gateway.questions import PATIENCE_S, Answered

WAIT_S = 30.0
"""How long a change may wait for a version to be loaded before it is answered as accepted."""

UNIX = "unix socket"


class Asker(Protocol):
    """The way to the broker."""

    def ask(self, what: str, body: bytes, answered: Answered, due: float) -> bool:
        """False where there is no broker; else `answered` is called once, at `due` at the latest,
        with None where the answer has not come.
        """

    def epoch(self) -> int:
        """The life of the broker that there is; 0 where there is none."""


Send = Callable[[Connection, Head, Page, str], None]


class Admin:
    """What is below /admin."""

    def __init__(
        self, *, guard: Guard, is_unix: bool, asker: Asker, memory: UploadMemory, send: Send
    ) -> None:
        self._guard = guard
        self._is_unix = is_unix
        self.asker = asker
        self.memory = memory
        self.send = send

    def open(
        self,
        connection: Connection,
        head: Head,
        now: float,
        route: AdminRoute,
        request_id: str,
    ) -> "AdminCall | None":
        """The call that takes its body; None where its head has been answered already."""
        peer = None if self._is_unix else connection.peer
        call = AdminCall(
            self, connection, head, route, due=now + WAIT_S, peer=peer or UNIX, id=request_id
        )
        objection = self._guard.objection(head.headers, peer)
        if objection is not None:
            call.refuse(objection)
            return None
        if route.allow:
            call.refuse(
                refusal(ErrorCode.METHOD_NOT_ALLOWED, f"allowed here: {route.allow}"),
                f"Allow: {route.allow}\r\n",
            )
            return None
        if call.changes and not is_json(head.headers.getall("Content-Type", ())):
            call.fail(ErrorCode.UNSUPPORTED_TYPE, "Content-Type must be application/json")
            return None
        if "Content-Encoding" in head.headers:
            call.fail(ErrorCode.UNSUPPORTED_TYPE, "the body must come as it is")
            return None
        try:
            asked_s = head.headers.get("X-Timeout-Ms")
            if asked_s is not None:
                call.due = now + min(headers.timeout_s(asked_s), WAIT_S)
        except headers.BadHeader as error:
            call.fail(ErrorCode.BAD_HEADER, str(error))
            return None
        return call


class AdminCall:
    """One request; see `connection.Call`."""

    def __init__(
        self,
        admin: Admin,
        connection: Connection,
        head: Head,
        route: AdminRoute,
        *,
        due: float,
        peer: str,
        id: str,
    ) -> None:
        self.due = due
        self.changes = head.method == "POST"
        self._admin = admin
        self._connection = connection
        self._head = head
        self._route = route
        self._peer = peer
        self._request_id = id
        self._epoch = 0  # of the broker that was asked
        self._over = False

    # -------------------------------------------------------------- what the connection calls

    def grow(self, size_bytes: int) -> bool:
        """See `connection.Call`."""
        if size_bytes > MAX_BODY_BYTES:
            self.fail(ErrorCode.BODY_TOO_LARGE, f"the body is larger than {MAX_BODY_BYTES} bytes")
        return not self._over

    def body(self) -> Body:
        """See `connection.Call`."""
        return Body(self._admin.memory, 0)

    def run_whole(self, body: bytes) -> None:
        """See `connection.Call`."""
        if self.grow(len(body)):
            self.run(body)

    def run(self, body: bytes | Stored) -> None:
        """See `connection.Call`."""
        assert isinstance(body, bytes), "nothing that is so small goes into shared memory"
        route = self._route
        try:
            question = from_body(route, body, self._peer) if self.changes else from_query(route)
        except BadQuestion as error:
            self.fail(error.code, str(error))
            return
        self._epoch = self._admin.asker.epoch()
        if not self._admin.asker.ask(route.what, question, self._answered, self.due):
            self._no_broker()

    def late(self, now: float) -> None:
        """See `connection.Call`."""
        self.fail(ErrorCode.BODY_TIMEOUT, "the body did not come in time")

    def fail(self, code: ErrorCode, message: str) -> None:
        """See `connection.Call`."""
        self.refuse(refusal(code, message))

    def drained(self) -> None:
        """See `connection.Call`; one short answer has nothing more to send."""

    def gone(self) -> None:
        """See `connection.Call`. What was asked for is done all the same."""
        self._over = True

    # -------------------------------------------------------------- answers

    def _answered(self, report: Report | None) -> None:
        if report is not None:
            self._tell(200, report)
        elif self.changes and self._route.pipeline and self._admin.asker.epoch() == self._epoch:
            self._accepted()
        else:
            self._no_broker()

    def _accepted(self) -> None:
        """It still waits for a version: answer with how it stands now."""
        question = msgspec.json.encode({"pipeline": self._route.pipeline})

        def answered(report: Report | None) -> None:
            if report is None:
                self._no_broker()
            else:
                self._tell(202, report)

        if not self._admin.asker.ask("traffic", question, answered, self.due + PATIENCE_S):
            self._no_broker()

    def _tell(self, status: int, report: Report) -> None:
        if report.code:
            self.refuse(Failure(report.code, report.message, retry_after_s=1.0))
            return
        body = report.body
        if report.message:
            document = msgspec.json.decode(body, type=dict[str, object])
            body = msgspec.json.encode({**document, "warning": report.message})
        self._send(Page(status, "application/json", body))

    def _no_broker(self) -> None:
        done = "; whether it was done, GET …/traffic tells" if self.changes else ""
        self.fail(ErrorCode.NOT_READY, f"no broker answers{done}")

    def refuse(self, failure: Failure, extra: str = "") -> None:
        """Answer with a failure."""
        if failure.code == ErrorCode.UNAUTHORIZED:
            extra += CHALLENGE
        said = problem(failure, self._request_id, extra)
        self._send(Page(said.status, "application/json", said.body, said.extra))

    def _send(self, page: Page) -> None:
        if not self._over:
            self._over = True
            self._admin.send(self._connection, self._head, page, self._request_id)
