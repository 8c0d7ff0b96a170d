"""What every process that serves metrics has in common: the families of its figures, and a port.

The HTTP server is the standard library's, with the application of prometheus_client behind it,
which chooses the format. It has threads of its own, so it is given copies or plain numbers, never
what the loop changes while it is read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from socket import AF_INET, AF_INET6
from socketserver import BaseRequestHandler
from threading import BoundedSemaphore, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import ThreadingWSGIServer, choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from broker.wire import log
from broker.wire.measures import Counts

MOST_READERS = 8
"""Connections at once; each has a thread."""
SLOW_S = 5.0
"""A reader that says nothing, or does not read, for so long is cut off."""


class NoFigures(Exception):
    """There are none at the moment, and why."""


class Plain(Collector):
    """A collector of families that a function makes when they are asked for."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """See the base class."""
        return self._families()


def registry_of(role: str, families: Callable[[], Iterable[Metric]]) -> CollectorRegistry:
    """A process's registry: its own families, and what the system says of it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Plain(families))
    build = _build(role)
    registry.register(Plain(lambda: [build, _log()]))
    ProcessCollector(namespace="millstream", registry=registry)
    return registry


def _build(role: str) -> Metric:
    try:
        release = version("millstream")
    except PackageNotFoundError:  # run from a folder that is not installed
        release = "unknown"
    family = GaugeMetricFamily("millstream_build_info", "1.", labels=["version", "role"])
    family.add_metric([release, role], 1.0)
    return family


def _log() -> Metric:
    return CounterMetricFamily(
        "millstream_log_lines_dropped",
        "Lines of the log that went nowhere: its reader is slow or gone, or the disk full.",
        value=log.dropped(),
    )


def exposition(registry: CollectorRegistry, accept: str = "") -> tuple[str, bytes]:
    """Content type and text, in the format that the reader accepts."""
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


def histogram(name: str, text: str, labels: Sequence[str] = ()) -> HistogramMetricFamily:
    """A family, to be filled by `add_counts`."""
    return HistogramMetricFamily(name, text, labels=labels)


def add_counts(
    family: HistogramMetricFamily,
    labels: Sequence[str],
    counts: Counts,
    exemplars: Sequence[Any] = (),
) -> None:
    """One series of a histogram; `exemplars` has one for each part, or None."""
    names = [*map(str, counts.limits), "+Inf"]
    family.add_metric(labels, list(_cumulated(names, counts.counts, exemplars)), counts.total)


def _cumulated(
    names: Sequence[str], counts: Sequence[int], exemplars: Sequence[Any]
) -> Iterator[Any]:
    total = 0
    for place, (name, count) in enumerate(zip(names, counts, strict=True)):
        total += count
        if exemplars and exemplars[place] is not None:
            yield name, total, exemplars[place]
        else:
            yield name, total


# ------------------------------------------------------------------ the port


class _Handler(WSGIRequestHandler):
    timeout = SLOW_S

    def log_message(self, *_: object) -> None:
        """Nothing: a reader comes every few seconds."""


class _Server(ThreadingWSGIServer):
    """A thread for each reader, and no more of them than there may be."""

    request_queue_size = MOST_READERS

    def __init__(self, address: Any, handler: type[BaseRequestHandler]) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self._free = BoundedSemaphore(MOST_READERS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that goes away is no news."""


class Port:
    """Serves a registry until it is closed, or the process ends."""

    def __init__(self, registry: CollectorRegistry, *, host: str, port: int) -> None:
        """Raises OSError where the port cannot be had."""
        app = make_wsgi_app(registry)

        def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
            try:
                text: list[bytes] = app(environ, start_response)
            except NoFigures as error:
                start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
                return [f"{error}\n".encode()]
            return text

        self._server = make_server(host, port, answer, _Server, _Handler)
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Serve nobody any longer; whoever is being served is."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
