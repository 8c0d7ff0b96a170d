"""Counters of the gateway, as plain numbers on the hot path, and as Prometheus text when asked.

The labels of a request come from the broker's catalog and answers alone, so that no client can make
up a new series.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sized
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gateway.memory import UploadMemory
from gateway.pending import PendingTable

UNKNOWN = "unknown"
"""The pipeline label of requests that named none that exists."""

_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_BUCKET_NAMES = [*map(str, _BUCKETS_S), "+Inf"]


class Metrics:
    """What the gateway counts."""

    __slots__ = ("_durations", "misread", "requests", "turned_away")

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        """By pipeline, version and status."""
        self.misread: dict[str, int] = {}
        """What was no readable request, by error code."""
        self.turned_away = 0
        """Connections that were more than this process may have files."""
        self._durations: dict[str, list[float]] = {}

    def count(self, pipeline: str, version: str, status: int, duration_s: float) -> None:
        """One request for inference has ended."""
        key = (pipeline, version, status)
        requests = self.requests
        requests[key] = requests.get(key, 0) + 1
        durations = self._durations.get(pipeline)
        if durations is None:  # one slot per bucket, the last for the sum
            durations = self._durations[pipeline] = [0.0] * (len(_BUCKET_NAMES) + 1)
        durations[bisect_left(_BUCKETS_S, duration_s)] += 1
        durations[-1] += duration_s

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
        duration = HistogramMetricFamily(
            "millstream_request_duration_seconds",
            "From the arrival of a request's head to its answer.",
            labels=["pipeline"],
        )
        for pipeline, slots in self._durations.items():
            total = 0.0
            buckets = []
            for name, count in zip(_BUCKET_NAMES, slots, strict=False):
                total += count
                buckets.append((name, total))
            duration.add_metric([pipeline], buckets, slots[-1])
        yield duration
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


class GatewayCollector(Collector):
    """Everything that `/metrics` shows, read when it is asked for."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        table: PendingTable[Any],
        memory: UploadMemory,
        connections: Sized,
        link_counts: dict[str, int],
    ) -> None:
        self._metrics = metrics
        self._table = table
        self._memory = memory
        self._connections = connections
        self._link_counts = link_counts

    def collect(self) -> Iterator[Metric]:
        """See the base class."""
        yield from self._metrics.families()
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
        for pipeline, bounds in self._table.bounds.items():
            items.add_metric([pipeline or UNKNOWN], bounds.items)
            held.add_metric([pipeline or UNKNOWN], bounds.held_bytes)
        yield items
        yield held
        yield GaugeMetricFamily(
            "millstream_gateway_broker_up",
            "1 while a broker takes this gateway's requests.",
            value=float(self._table.up),
        )
        yield GaugeMetricFamily(
            "millstream_gateway_connections",
            "Open client connections.",
            value=len(self._connections),
        )
        dropped = CounterMetricFamily(
            "millstream_gateway_dropped_messages",
            "Messages from the broker that were dropped, by reason.",
            labels=["reason"],
        )
        dropped.add_metric(["late"], self._table.late_answers)
        dropped.add_metric(["stale"], self._table.stale_messages)
        for reason, count in self._link_counts.items():
            dropped.add_metric([reason], count)
        yield dropped
        yield from self._of_memory()

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


def exposition(collector: Collector) -> bytes:
    """The text that Prometheus scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)
