"""What a worker tells the broker of itself, once a second: its shared memory, and what its plug-in
counts.

Counts are told as what came since the last time, so that nothing is counted twice: neither by a
broker that was started anew, nor after this process. What a killed worker had not told yet, at most
a second's worth, is lost with it.
"""

from broker.wire.messages import NO_EPOCH, WorkerFigures
from workers.api import Worker
from workers.memory import SharedMemory

ALL_AGAIN_S = 30.0
"""What does not change is told this often: a broker may have taken us for lost, and back."""


class Telling:
    """See the module."""

    def __init__(self, plugin: Worker, memory: SharedMemory) -> None:
        self._plugin = plugin
        self._memory = memory
        self._told_to = NO_EPOCH
        self._told_all_at = 0.0
        self._told = (0, 0)
        self._overflows = 0

    def take(self, epoch: int, now: float) -> WorkerFigures | None:
        """What this broker, which has welcomed us, does not know yet; None where it knows all."""
        memory = self._memory
        arena = (memory.used_bytes, memory.limit_bytes)
        overflows = memory.overflows
        anew = epoch != self._told_to or now - self._told_all_at >= ALL_AGAIN_S
        if anew:
            self._told_all_at = now
        figures = WorkerFigures(epoch, *arena, max(overflows - self._overflows, 0))
        is_news = arena != self._told or figures.overflows > 0 or (anew and arena[1] > 0)
        self._told_to, self._told, self._overflows = epoch, arena, overflows
        metrics = self._plugin._metrics
        if metrics is not None:
            figures.series, figures.dropped = metrics.take(anew=anew)
        return figures if is_news or figures.series or figures.dropped else None
