"""Whether a shadow answers as the stable version does, as often as the guard wants it. Pure.

Copies go to a shadow whatever users get, so what is looked at is a share of pairs, and not a
difference of two versions: of those that were compared, how many did not agree.
"""

from math import log

from broker.core.agreement import Agreement
from broker.core.config import GuardConfig
from broker.core.contrast import Counts
from broker.core.sequential import RATIOS, RateTest

FINE_RATIOS = (1.1, 1.25, *RATIOS)
"""No margin is allowed beside the share, so that small excesses are bet on, too."""

LEAST_SHARE = 1e-4
"""Where all answers are to agree, so many may differ after all."""


class Likeness:
    """A shadow, and the stable version whose answers users get."""

    __slots__ = ("_seen", "_shown", "_test", "compared", "config", "shadow", "stable")

    def __init__(self, shadow: str, stable: str, config: GuardConfig) -> None:
        """Where `config` wants some share to agree."""
        self.shadow = shadow
        self.stable = stable
        self.config = config
        self.compared = 0
        self._seen: tuple[int, int] | None = None  # of the figures, at the last look
        self._shown = Counts(config)
        self._test = RateTest(max(1.0 - config.agreement, LEAST_SHARE), FINE_RATIOS)

    def add(self, figures: Agreement) -> None:
        """What was counted of the two; at first only to know what was there before."""
        compared, unlike = figures.compared, figures.differed + figures.failed
        before, unlike_before = self._seen or (compared, unlike)
        self._seen = (compared, unlike)
        if compared < before:  # they were forgotten, and begun anew
            before = unlike_before = 0
        if compared > before:
            self.compared += compared - before
            self._test.add(compared - before, unlike - unlike_before)
            self._shown.add(compared - before, unlike - unlike_before, 0, 0)

    def verdict(self) -> str:
        """That too few of its answers agree, with figures; "" while that is not shown."""
        config = self.config
        if self.compared < config.min_requests:
            return ""
        if self._test.evidence.log() < -log(config.part):
            return ""
        compared, unlike, _, _ = self._shown.total()
        if unlike / compared <= 1.0 - config.agreement:
            return ""
        return (
            f"agreement: {100 * (1 - unlike / compared):.3g} % ({compared - unlike} of {compared}) "
            f"of its answers agree with those of version {self.stable}, "
            f"{100 * config.agreement:.4g} % are wanted"
        )
