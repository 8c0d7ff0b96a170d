"""The broker's metrics port. The loop makes the figures, at its next turn after somebody asks."""

import sys
from collections.abc import Callable, Iterator
from itertools import chain
from threading import Event, Lock

from prometheus_client.core import Metric

from broker.core.measurements import Measurements
from broker.core.scheduler import Scheduler
from broker.metrics import itself, pipelines, plugins, stages, versions, workers
from broker.wire.exposition import NoFigures, Port, registry_of

ANSWER_S = 5.0
"""A loop that is so long in a turn hangs."""

SWITCH_S = 0.0005
"""The loop and the thread that writes the text take turns so often, where both have something to
do: else the loop would wait for 5 ms each time that it has waited for anything."""


class MetricsPort:
    """Serves the figures of a scheduler. `refresh` is called by the loop at each turn."""

    def __init__(self, scheduler: Scheduler, *, host: str, port: int) -> None:
        """Raises OSError where the port cannot be had."""
        self._scheduler = scheduler
        self._is_wanted = False
        self._is_there = Event()
        self._latest: Measurements | None = None
        self._one_at_a_time = Lock()
        sys.setswitchinterval(SWITCH_S)
        self._port = Port(registry_of("broker", self._families), host=host, port=port)

    def refresh(self, now: float) -> None:
        """Make the figures, if somebody waits for them."""
        if self._is_wanted:
            self._is_wanted = False
            self._latest = self._scheduler.measure(now)
            self._is_there.set()

    def _ask(self) -> Measurements:
        """From another thread; raises NoFigures where the loop does not come round."""
        with self._one_at_a_time:
            self._is_there.clear()
            self._is_wanted = True
            if not self._is_there.wait(ANSWER_S) or self._latest is None:
                raise NoFigures(f"the broker's loop has not come round for {ANSWER_S:g} s")
            return self._latest

    def _families(self) -> Iterator[Metric]:
        return families(self._ask())


def families(measured: Measurements) -> Iterator[Metric]:
    """All families of the broker's own figures."""
    parts: tuple[Callable[[Measurements], Iterator[Metric]], ...] = (
        pipelines.families,
        stages.families,
        workers.families,
        versions.families,
        plugins.families,
        itself.families,
    )
    return chain.from_iterable(part(measured) for part in parts)
