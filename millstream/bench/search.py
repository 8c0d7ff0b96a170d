"""Which rates to try next, to find the highest that a service bears. Pure.

Doubles until the SLO is missed, then halves what is left between the last rate that was met and the
first that was not. A rate that is met by chance must be met again before it is believed.
"""

START_PER_S = 10.0
MOST_PER_S = 1e6
PRECISION = 0.05
"""Of the rate: nearer than chance tells in a few seconds there is nothing to find."""
STEP_DOWN = 0.95


class Search:
    """Ask `next`, measure, and tell what came of it with `told`, until `next` is None."""

    def __init__(self, start_per_s: float = START_PER_S) -> None:
        self._rate = start_per_s
        self._met = 0.0
        self._missed = 0.0
        self._confirming = False
        self.found = 0.0
        """The highest rate that was met twice; 0 where there was none, or it is not known yet."""

    @property
    def next(self) -> float | None:
        """Requests a second to try; None when there is nothing more to find."""
        return None if self.found or self._rate < 1.0 else self._rate

    def told(self, *, met: bool) -> None:
        """Whether the SLO was met at the rate that `next` said."""
        rate = self._rate
        if self._confirming:
            if met:
                self.found = rate
            else:
                self._rate = rate * STEP_DOWN
            return
        if met:
            self._met = rate
        else:
            self._missed = rate
        if not self._missed:
            self._rate = rate * 2.0
            self._confirming = self._rate > MOST_PER_S
        elif not self._met:
            self._rate = rate / 2.0
        elif self._missed - self._met <= PRECISION * self._missed:
            self._rate = self._met
            self._confirming = True
        else:
            self._rate = (self._met + self._missed) / 2.0
