"""How long to wait before a dead worker is replaced. Pure."""

FIRST_DELAY_S = 0.1
MAX_DELAY_S = 30.0
HEALTHY_S = 5.0
"""A worker that was ready for so long has shown that it can live: the next death is a new story."""


class Backoff:
    """Delays that double from death to death."""

    __slots__ = ("_next_s",)

    def __init__(self) -> None:
        self._next_s = FIRST_DELAY_S

    def after_death(self, ready_s: float) -> float:
        """Seconds to wait now. `ready_s` is how long the dead one had been ready, 0 for never."""
        if ready_s >= HEALTHY_S:
            self._next_s = FIRST_DELAY_S
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, MAX_DELAY_S)
        return delay_s
