"""A supervisor's metrics port: its workers as the operating system sees them, and the GPUs.

The threads that answer see what the supervisor's loop has shown last, and ask the driver by
themselves: one that hangs holds up nothing else.
"""

from collections.abc import Iterator, Sequence
from errno import EADDRINUSE

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.wire.exposition import Port, registry_of
from workers.crew import CrewFigures
from workers.gpus import Gpus

PORTS_TRIED = 32
"""One line of a Procfile may be started so many times, each with the same port."""


class SupervisorMetrics:
    """See the module."""

    def __init__(self) -> None:
        self._gpus = Gpus()
        self._crews: Sequence[CrewFigures] = ()
        self._is_up = False
        self._port: Port | None = None

    def serve(self, host: str, port: int) -> int:
        """Listen at this port, or at the next one that is free; returns which. Raises OSError."""
        registry = registry_of("supervisor", self._families)
        last = min(port + PORTS_TRIED, 65536) - 1
        for number in range(port, last):
            try:
                self._port = Port(registry, host=host, port=number)
            except OSError as error:
                if error.errno != EADDRINUSE:
                    raise
            else:
                return number
        self._port = Port(registry, host=host, port=last)
        return last

    def close(self) -> None:
        """Listen no longer."""
        if self._port is not None:
            self._port.close()

    def show(self, crews: Sequence[CrewFigures], *, is_up: bool) -> None:
        """How things stand now; `is_up`: whether a broker answers."""
        self._crews, self._is_up = crews, is_up

    def _families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "millstream_supervisor_broker_up", "1 while its broker answers.", float(self._is_up)
        )
        crews = self._crews
        yield from _of_crews(crews)
        yield from _of_places(crews)
        yield from _of_gpus(self._gpus)


def _of_crews(crews: Sequence[CrewFigures]) -> Iterator[Metric]:
    labels = ["stage", "version"]
    workers = GaugeMetricFamily(
        "millstream_supervisor_workers", "Worker processes by state.", labels=[*labels, "state"]
    )
    starts = CounterMetricFamily(
        "millstream_supervisor_worker_starts",
        "Worker processes started, by why.",
        labels=[*labels, "reason"],
    )
    for crew in crews:
        where = [crew.stage, crew.version]
        for state, count in crew.states.items():
            workers.add_metric([*where, state], count)
        for reason, count in crew.starts.items():
            starts.add_metric([*where, reason], count)
    yield from (workers, starts)


def _of_places(crews: Sequence[CrewFigures]) -> Iterator[Metric]:
    labels = ["stage", "version", "index"]
    cpu = CounterMetricFamily(
        "millstream_supervisor_worker_cpu_seconds",
        "Processor time at each place, predecessors included.",
        labels=labels,
    )
    memory = GaugeMetricFamily(
        "millstream_supervisor_worker_resident_memory_bytes",
        "Memory of whoever is at each place.",
        labels=labels,
    )
    for crew in crews:
        for index, (cpu_s, rss_bytes) in enumerate(zip(crew.cpu_s, crew.rss_bytes, strict=True)):
            where = [crew.stage, crew.version, str(index)]
            cpu.add_metric(where, cpu_s)
            memory.add_metric(where, rss_bytes)
    yield from (cpu, memory)


def _of_gpus(gpus: Gpus) -> Iterator[Metric]:
    labels = ["gpu", "name"]
    used = GaugeMetricFamily(
        "millstream_gpu_memory_used_bytes", "Memory in use, by anybody.", labels=labels
    )
    total = GaugeMetricFamily("millstream_gpu_memory_total_bytes", "Memory it has.", labels=labels)
    busy = GaugeMetricFamily(
        "millstream_gpu_utilization_ratio",
        "Part of the last moments in which it worked.",
        labels=labels,
    )
    for gpu in gpus.look():
        where = [gpu.uuid, gpu.name]
        used.add_metric(where, gpu.used_bytes)
        total.add_metric(where, gpu.total_bytes)
        if gpu.utilization is not None:
            busy.add_metric(where, gpu.utilization)
    yield from (family for family in (used, total, busy) if family.samples)
