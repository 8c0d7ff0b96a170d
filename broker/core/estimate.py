"""How long a batch of b takes: t(b) = a + c·b, learnt from the batches themselves.

Weighted least squares with exponential forgetting. Robust in three ways: a sample far off the line
counts only as far as the usual spread allows (winsorising, after Huber 1964), so that one hung
batch does not move it; samples that keep being far off on the same side are a real change, before
which the past counts for little; and the slope is held to its former value where the sizes seen
lately hardly differ.
"""

FADE = 0.97
"""Weight of the past at each new sample: about the last 33 batches count."""

SEED_WEIGHT = 3.0
SPREADS = 4.0
"""How many mean deviations (they are relative: larger batches spread more) a sample may count."""

SLOPE_PRIOR = 0.5
"""Pull of the former slope, in units of the variance of the batch size."""

CHANGED = 5
CHANGED_FADE = 0.5
"""From so many samples in a row far off on the same side, they are what is true now, and the past
fades this fast."""

FIRST = 6
"""So many samples are taken as they are, before there is a spread to judge by."""


class BatchTime:
    """t(b) of one stage and version. `known` is False until something was measured."""

    __slots__ = ("_b", "_bb", "_bt", "_far", "_spread", "_t", "_w", "a", "c", "samples")

    def __init__(self) -> None:
        self.a = 0.0
        self.c = 0.0
        self.samples = 0
        self._w = self._b = self._bb = self._t = self._bt = 0.0
        self._spread = 0.0
        self._far = 0  # samples in a row beyond the spread; negative when below

    @property
    def known(self) -> bool:
        return self._w > 0.0

    @property
    def spread(self) -> float:
        """The mean deviation of batches from it, as a share of it; 0 before there were any."""
        return self._spread

    def seed(self, size: int, seconds: float) -> None:
        """Take a figure of a warm-up, unless batches have told better."""
        if self.samples < FIRST:
            self._add(size, seconds, SEED_WEIGHT)

    def observe(self, size: int, seconds: float) -> None:
        """Take the time of one ordinary batch of `size` items."""
        if self._w > 0.0:
            fade = FADE
            expected = max(self.a + self.c * size, 1e-9)
            off = seconds / expected - 1.0
            if self.samples >= FIRST:
                bound = SPREADS * max(self._spread, 0.02)
                self._judge(off, bound)
                bounded = min(max(off, -bound), bound)
                if abs(self._far) >= CHANGED:
                    fade = CHANGED_FADE
                else:
                    seconds = expected * (1.0 + bounded)
                off = bounded
            self._spread += (1.0 - FADE) * (abs(off) - self._spread) * (1 if self.samples else 30)
        else:
            fade = 1.0
        self.samples += 1
        self._add(size, seconds, 1.0, fade)

    def predict(self, size: int) -> float:
        """Seconds that a batch of `size` takes; 0 while nothing is known."""
        return self.a + self.c * size

    def _judge(self, off: float, bound: float) -> None:
        """Count how many samples in a row were further off than `bound` on the same side.

        Once they are taken for a change, only a sample as near as the usual one ends it.
        """
        if abs(off) <= (bound if abs(self._far) < CHANGED else bound / SPREADS):
            self._far = 0
        elif off > 0.0:
            self._far = max(self._far, 0) + 1
        else:
            self._far = min(self._far, 0) - 1

    def _add(self, size: int, seconds: float, weight: float, fade: float = 1.0) -> None:
        """Take a sample of this weight, and fit the line. `fade` is the weight that the past keeps.

        (All in one, with what is used twice in locals: it is done for each batch.)
        """
        self._w = w = self._w * fade + weight
        self._b = b = self._b * fade + weight * size
        self._bb = bb = self._bb * fade + weight * size * size
        self._t = t = self._t * fade + weight * seconds
        self._bt = bt = self._bt * fade + weight * size * seconds
        mean_b = b / w
        mean_t = t / w
        variance = bb / w - mean_b * mean_b
        covariance = bt / w - mean_b * mean_t
        slope = (covariance + SLOPE_PRIOR * self.c) / (variance + SLOPE_PRIOR)
        slope = min(max(slope, 0.0), mean_t / mean_b)  # neither a nor c can be negative
        self.c = slope
        self.a = mean_t - slope * mean_b
