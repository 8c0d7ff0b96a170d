"""What a request asks for where MOSEC's kind of pipelines is served: its routes and pages go before
ours. Called with what is at no path of ours that is for inference.
"""

from typing import TYPE_CHECKING

from broker.wire.errors import ErrorCode
from broker.wire.messages import Report
from gateway.call import JSON, Call
from gateway.catalog import CatalogView, PipelineView
from gateway.connection import Connection
from gateway.head import Head
from gateway.mosec.call import MosecCall
from gateway.pages import Page

if TYPE_CHECKING:
    from gateway.service import Service

_METRICS = "/metrics"


def open_call(
    service: "Service", connection: Connection, head: Head, now: float, view: PipelineView
) -> Call | None:
    """The same call as any other, with another face; None where it is answered already."""
    name = view.name
    bounds = service.table.bounds.of(name)
    client = connection.peer_number if head.client is None else head.client
    request_id = head.request_id or service.new_id()
    call = MosecCall(
        *(service, now, request_id, bounds, client, head.priority, name, "", view, None),
        *(connection, head),
    )
    call.trace = service.begin_trace_of(head, connection, now)
    if head.bad:
        call.fail(ErrorCode.BAD_HEADER, head.bad)
        return None
    service.set_due(call)
    return call if service.accepts(call, head) else None


def find(
    service: "Service", catalog: CatalogView, connection: Connection, head: Head, now: float
) -> tuple[bool, Call | None]:
    """Whether it is MOSEC's to answer, and the call where it is for inference."""
    path = head.path.partition("?")[0]
    view = catalog.mosec.get(path)
    if view is not None and head.method == "POST":
        return True, open_call(service, connection, head, now, view)
    if view is not None:
        page: Page | None = Page(405, JSON, b"", "Allow: POST\r\n")
    elif head.method not in ("GET", "HEAD"):
        return False, None
    elif path == _METRICS:
        _show_metrics(service, catalog, connection, head, now)
        return True, None
    else:
        page = service.mosec.page(path, catalog.pipelines.values(), draining=service.draining)
    if page is None:
        return False, None
    request_id = service.request_id(head)
    service.own.send(connection, head, page, request_id, service.mosec.heads)
    return True, None


def _show_metrics(
    service: "Service", catalog: CatalogView, connection: Connection, head: Head, now: float
) -> None:
    """The broker has some of the figures: it is asked for them."""
    waiting: dict[str, int] = {}
    for view in catalog.pipelines.values():
        if view.mosec is not None:
            items = service.table.bounds.of(view.name).items
            waiting[view.mosec.namespace] = waiting.get(view.mosec.namespace, 0) + items
    request_id = service.request_id(head)

    def answered(report: Report | None) -> None:
        status = report.body if report is not None else None
        page = service.mosec.metrics(service.pages.registry, waiting, status)
        service.own.send(connection, head, page, request_id, service.mosec.heads)

    service.asker.status(answered, now)
