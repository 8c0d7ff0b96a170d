"""How a gateway is at the moment: requests a second, and how late its loop comes."""

STEP_S = 1.0


class Pulse:
    """`tick` a few times a second."""

    __slots__ = ("_lag_s", "_stepped", "_total", "began", "per_s")

    def __init__(self, now: float) -> None:
        self.began = now
        self.per_s = 0.0
        """Requests that ended in the last second."""
        self._stepped = now
        self._total = 0
        self._lag_s = 0.0

    def tick(self, total: int, now: float) -> None:
        """So many requests have ended by now."""
        passed_s = now - self._stepped
        if passed_s >= STEP_S:
            self.per_s = round((total - self._total) / passed_s, 1)
            self._total = total
            self._stepped = now

    def lagged(self, late_s: float) -> None:
        """The loop came so late at one moment."""
        self._lag_s = max(self._lag_s, late_s)

    def take_lag_ms(self) -> float:
        """The most of these since this was asked last."""
        lag_ms, self._lag_s = round(max(self._lag_s, 0.0) * 1e3, 2), 0.0
        return lag_ms
