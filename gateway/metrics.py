"""Counters of the gateway, as plain numbers on the hot path, and as families when asked.

The labels of a request come from the broker's catalog and answers alone, so that no client can make
up a new series.
"""

import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Sized
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from broker.wire.exposition import add_counts, histogram
from broker.wire.measures import TIMES_S, Counts, Histogram
from gateway.exporter import ExporterProcess
from gateway.memory import UploadMemory
from gateway.pending import PendingTable

UNKNOWN = "unknown"
"""The pipeline label of requests that named none that exists."""

_PARTS = len(TIMES_S) + 1

_SAMPLED = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f][13579bdf]")
"""A traceparent whose trace somebody keeps, and its id."""


class Metrics:
    """What the gateway counts."""

    __slots__ = ("_durations", "_exemplars", "errors", "lag", "misread", "requests", "turned_away")

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        """By pipeline, version and status."""
        self.errors: dict[tuple[str, str], int] = {}
        """By pipeline and error code."""
        self.misread: dict[str, int] = {}
        """What was no readable request, by error code."""
        self.turned_away = 0
        """Connections that were more than this process may have files."""
        self.lag = Histogram()
        """How late the loop came to what was due."""
        self._durations: dict[str, list[float]] = {}
        self._exemplars: dict[str, list[Exemplar | None]] = {}

    def count(self, pipeline: str, version: str, status: int, duration_s: float) -> None:
        """One request for inference has ended."""
        key = (pipeline, version, status)
        requests = self.requests
        requests[key] = requests.get(key, 0) + 1
        durations = self._durations.get(pipeline)
        if durations is None:  # one slot for each part, the last for the sum
            durations = self._durations[pipeline] = [0.0] * (_PARTS + 1)
        durations[bisect_left(TIMES_S, duration_s)] += 1
        durations[-1] += duration_s

    def count_error(self, pipeline: str, code: str) -> None:
        """It got no result, and why."""
        key = (pipeline, code)
        self.errors[key] = self.errors.get(key, 0) + 1

    def exemplify(self, pipeline: str, duration_s: float, traceparent: str) -> None:
        """A request that belongs to a trace has ended: where that is kept, it is an example of how
        long requests take.
        """
        found = _SAMPLED.fullmatch(traceparent)
        if found is None:
            return
        exemplars = self._exemplars.get(pipeline)
        if exemplars is None:
            exemplars = self._exemplars[pipeline] = [None] * _PARTS
        exemplar = Exemplar({"trace_id": found[1]}, duration_s, time.time())
        exemplars[bisect_left(TIMES_S, duration_s)] = exemplar

    def count_misread(self, code: str, status: int) -> None:
        """What a client sent could not be read as a request."""
        self.misread[code] = self.misread.get(code, 0) + 1
        key = (UNKNOWN, "", status)
        self.requests[key] = self.requests.get(key, 0) + 1

    def total(self) -> int:
        """How many requests for inference have ended."""
        return sum(self.requests.values())

    def statuses(self) -> list[tuple[str, int, int]]:
        """The same by pipeline and status, whatever their version."""
        counts: dict[tuple[str, int], int] = {}
        for (pipeline, _, status), ended in self.requests.items():
            counts[pipeline, status] = counts.get((pipeline, status), 0) + ended
        return [(pipeline, status, ended) for (pipeline, status), ended in counts.items()]

    def families(self) -> Iterator[Metric]:
        """The metric families of what was counted."""
        requests = CounterMetricFamily(
            "millstream_requests",
            "Requests for inference, by what they were answered (499: client gone).",
            labels=["pipeline", "version", "status"],
        )
        for (pipeline, version, status), ended in self.requests.items():
            requests.add_metric([pipeline, version, str(status)], ended)
        yield requests
        errors = CounterMetricFamily(
            "millstream_request_errors",
            "Of these, those that got no result, by error code.",
            labels=["pipeline", "code"],
        )
        for (pipeline, code), ended in self.errors.items():
            errors.add_metric([pipeline, code], ended)
        yield errors
        yield self._duration()
        misread = CounterMetricFamily(
            "millstream_gateway_misread",
            "What clients sent that is no readable HTTP request, by error code.",
            labels=["code"],
        )
        for code, seen in self.misread.items():
            misread.add_metric([code], seen)
        yield misread
        yield CounterMetricFamily(
            "millstream_gateway_turned_away",
            "Connections that were more than this process may have open files.",
            value=self.turned_away,
        )
        lag = histogram("millstream_loop_lag_seconds", "How late the loop came to what was due.")
        add_counts(lag, [], self.lag.take())
        yield lag

    def _duration(self) -> HistogramMetricFamily:
        family = histogram(
            "millstream_request_duration_seconds",
            "From the arrival of a request's head to its answer.",
            ["pipeline"],
        )
        for pipeline, slots in self._durations.items():
            counts = Counts(TIMES_S, [int(count) for count in slots[:-1]], slots[-1])
            add_counts(family, [pipeline], counts, self._exemplars.get(pipeline, ()))
        return family


class NoMetrics(Metrics):
    """Counts no requests."""

    __slots__ = ()

    def count(self, pipeline: str, version: str, status: int, duration_s: float) -> None:
        """Not."""

    def exemplify(self, pipeline: str, duration_s: float, traceparent: str) -> None:
        """Not."""


class GatewayFigures:
    """Everything that `/metrics` shows, read when it is asked for."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        table: PendingTable[Any],
        memory: UploadMemory,
        connections: Sized,
        streaming: Sized,
        link_counts: dict[str, int],
        exporter: ExporterProcess | None,
    ) -> None:
        self._metrics = metrics
        self._table = table
        self._memory = memory
        self._connections = connections
        self._streaming = streaming
        self._link_counts = link_counts
        self._exporter = exporter

    def families(self) -> Iterator[Metric]:
        """All of them."""
        yield from self._metrics.families()
        yield from self._of_table()
        yield GaugeMetricFamily(
            "millstream_gateway_connections",
            "Open client connections.",
            value=len(self._connections),
        )
        yield GaugeMetricFamily(
            "millstream_gateway_open_streams",
            "Requests that are being answered value by value.",
            value=len(self._streaming),
        )
        yield from self._of_memory()
        if self._exporter is not None:
            yield CounterMetricFamily(
                "millstream_gateway_traces_dropped",
                "Traces that were not exported: no room, or nobody who takes them.",
                value=self._exporter.dropped,
            )

    def _of_table(self) -> Iterator[Metric]:
        table = self._table
        yield CounterMetricFamily(
            "millstream_gateway_submitted",
            "Requests that were submitted to a broker, each counted once.",
            value=table.submitted,
        )
        yield CounterMetricFamily(
            "millstream_gateway_resubmitted",
            "Requests that were submitted again, since a broker may not have them.",
            value=table.resubmitted,
        )
        yield CounterMetricFamily(
            "millstream_gateway_settled",
            "Requests that were answered with what the broker said.",
            value=table.settled,
        )
        items = GaugeMetricFamily(
            "millstream_gateway_waiting_items",
            "Requests that wait for the broker's answer.",
            labels=["pipeline"],
        )
        held = GaugeMetricFamily(
            "millstream_gateway_held_bytes",
            "Request bodies held until they are answered.",
            labels=["pipeline"],
        )
        for pipeline, bounds in table.bounds.items():
            items.add_metric([pipeline or UNKNOWN], bounds.items)
            held.add_metric([pipeline or UNKNOWN], bounds.held_bytes)
        yield items
        yield held
        yield GaugeMetricFamily(
            "millstream_gateway_broker_up",
            "1 while a broker takes this gateway's requests.",
            value=float(table.up),
        )
        dropped = CounterMetricFamily(
            "millstream_gateway_dropped_messages",
            "Messages from the broker that were dropped, by reason.",
            labels=["reason"],
        )
        dropped.add_metric(["late"], table.late_answers)
        dropped.add_metric(["stale"], table.stale_messages)
        for reason, count in self._link_counts.items():
            dropped.add_metric([reason], count)
        yield dropped

    def _of_memory(self) -> Iterator[Metric]:
        memory = self._memory
        yield GaugeMetricFamily(
            "millstream_arena_used_bytes",
            "Shared memory that holds uploads of this gateway.",
            value=memory.used_bytes,
        )
        yield GaugeMetricFamily(
            "millstream_arena_limit_bytes",
            "How large that memory may become; 0 while there is none.",
            value=memory.limit_bytes,
        )
        yield CounterMetricFamily(
            "millstream_arena_overflows",
            "Uploads that went through the socket because that memory was full.",
            value=memory.overflows,
        )
