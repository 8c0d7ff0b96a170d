"""Whether one version does worse than another: what is counted of the two, and what follows.

Pure figures; `guard.py` acts on them. Three things are looked at, each with its part of the false
alarms that are allowed: faults at the same time, times at the same time, and where the other
version has no requests any longer, faults against those that it had. What a shadow answers may be
a fourth (`likeness.py`).
"""

from math import log

from broker.core.config import GuardConfig
from broker.core.contrast import Counts, Faults, Times, is_shown
from broker.core.figures import Figures, Moment
from broker.core.likeness import Likeness
from broker.core.sequential import RateTest, upper_bound
from broker.core.traffic import Promotion, Traffic

CRASHES = 3
"""So many requests that killed its workers are enough where there were fewer than `min_requests`:
while its workers are being restarted a version gets hardly any."""

LEAST_RATE = 1e-4
"""A version that never failed before may do so this often after all."""


class Watch:
    """A version, the canary, beside another that it is compared with, the stable one."""

    __slots__ = (
        "_after", "_before", "_faults", "_times", "config", "crashes", "requests", "stable",
        "until", "version",
    )  # fmt: skip

    def __init__(self, version: str, stable: str, config: GuardConfig) -> None:
        self.version = version
        self.stable = stable
        self.config = config
        self.until = float("inf")
        """When it ends; set when the version has taken over."""
        self._before: tuple[int, int] = (0, 0)  # requests and faults that the stable one had
        self.begin()

    def begin(self) -> None:
        """As if nothing had been seen yet."""
        self.requests = self.crashes = 0
        self._faults = Faults(self.config)
        self._times = Times(self.config)
        self._after: RateTest | None = None

    def add(self, canary: Moment, stable: Moment, known: Figures) -> None:
        """What both did since the last look. `known` is of the stable one, without that."""
        self.requests += canary.requests
        self.crashes += canary.crashes
        if stable.requests:
            self._after = None
        self._faults.add(canary, stable)
        self._times.add(canary.runs, stable.runs, known.runs)

    def add_alone(self, canary: Moment, known: Figures | None) -> None:
        """The same while the stable one gets no requests; `known` is what it did before, if that is
        known.
        """
        self.requests += canary.requests
        self.crashes += canary.crashes
        if self._after is None:
            if known is None or known.judged < self.config.min_requests:
                return
            self._before = (known.judged, known.faults)
            rate = upper_bound(known.faults, known.judged, self.config.part / 2)
            rate = max(rate, LEAST_RATE) + self.config.error_margin
            if rate >= 1.0:
                return
            self._after = RateTest(rate)
            self._faults.shown = Counts(self.config)
        self._after.add(canary.requests, canary.faults)
        self._faults.shown.add(canary.requests, canary.faults, 0, 0)

    def verdict(self) -> str:
        """What the version does worse, with figures; "" while that is not shown."""
        if self.requests < self.config.min_requests:
            if self.crashes < CRASHES:
                return ""
            return self._more_faults() or self._more_faults_than_before()
        return self._more_faults() or self._is_slower() or self._more_faults_than_before()

    def _more_faults(self) -> str:
        requests, faults, others, other_faults = self._faults.shown.total()
        if not requests or not others or not is_shown(self._faults.tests, self.config.part):
            return ""
        if faults / requests - other_faults / others <= self.config.error_margin:
            return ""
        return (
            f"errors: {_share(faults, requests)} of its requests, "
            f"{_share(other_faults, others)} of those of version {self.stable}"
        )

    def _is_slower(self) -> str:
        batches, slow, others, other_slow = self._times.shown.total()
        if not batches or not others or slow / batches <= other_slow / others:
            return ""
        if not is_shown(self._times.tests, self.config.part):
            return ""
        own_ms, limit_ms = self._times.limits_ms
        return (
            f"latency: {_share(slow, batches)} of its batches took more than {own_ms:.4g} ms; "
            f"{_share(other_slow, others)} of those of version {self.stable} "
            f"took more than {limit_ms:.4g} ms"
        )

    def _more_faults_than_before(self) -> str:
        if self._after is None or self._after.evidence.log() < -log(self.config.part / 2):
            return ""
        requests, faults, _, _ = self._faults.shown.total()
        judged, before = self._before
        return (
            f"errors: {_share(faults, requests)} of its requests, "
            f"{_share(before, judged)} of those of version {self.stable} before"
        )


def _share(part: int, of: int) -> str:
    return f"{100 * part / of:.3g} % ({part} of {of})"


class Watches:
    """What is compared in one pipeline. Without a guard nothing follows from it."""

    __slots__ = ("_stable", "_step", "by_version", "config", "is_guarding", "likeness")

    def __init__(self, guard: GuardConfig | None, stable: str) -> None:
        self.config = guard or GuardConfig()
        self.is_guarding = guard is not None
        self.by_version: dict[str, Watch] = {}
        self.likeness: Likeness | None = None  # of the shadow, where that must agree
        self._stable = stable
        self._step: tuple[Promotion | None, int] = (None, 0)

    def follow(self, traffic: Traffic, now: float) -> None:
        """Which versions are to be watched, now that traffic is so. One that has a share and is not
        there at the moment is: perhaps its workers die of what they are sent.
        """
        before, stable = self._stable, traffic.stable
        self._stable = stable
        shares = {version for version, share in traffic.weights.items() if share > 0}
        wanted = dict.fromkeys(shares - {stable}, stable)
        watch = self.by_version.get(stable)
        if before and stable != before == traffic.previous:
            watch = self._watch(stable, before)
            watch.until = now + self.config.watch_s
        if watch is not None and shares == {stable} and watch.stable == traffic.previous:
            self.by_version[stable] = watch
            if now < watch.until:
                wanted[stable] = watch.stable
        self.by_version = {
            version: self._watch(version, other) for version, other in wanted.items()
        }
        self.likeness = self._liken(traffic.shadow, stable)
        promotion = traffic.promotion
        if promotion != self._step[0]:
            begun = self.by_version.get(promotion.version) if promotion is not None else None
            self._step = (promotion, begun.requests if begun is not None else 0)

    def _watch(self, version: str, stable: str) -> Watch:
        watch = self.by_version.get(version)
        if watch is None or watch.stable != stable:
            watch = Watch(version, stable, self.config)
        return watch

    def _liken(self, shadow: str, stable: str) -> Likeness | None:
        if not shadow or not stable or not self.config.agreement:
            return None
        known = self.likeness
        if known is None or (known.shadow, known.stable) != (shadow, stable):
            known = Likeness(shadow, stable, self.config)
        return known

    def may_step(self, promotion: Promotion) -> bool:
        """Whether a promotion has seen enough in its step to go on."""
        if not self.is_guarding:
            return True
        watch = self.by_version.get(promotion.version)
        begun, before = self._step
        if watch is None or begun != promotion:
            return False
        return watch.requests - before >= self.config.min_requests
