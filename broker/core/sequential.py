"""Tests that stay valid however often they are looked at, for streams of good and bad outcomes.

A test's evidence is the gain of bets that are fair, or worse, while the canary is no worse: the
chance that it ever reaches 1/alpha is at most alpha then, over all looks together (Ville 1939;
Ramdas, Grünwald, Vovk and Shafer, *Game-Theoretic Statistics and Safe Anytime-Valid Inference*,
2023). Evidence is told as its natural logarithm.

`OddsTest` compares what two versions did at the same time. Outcomes of one moment, a block, are a
2x2 table: as long as the chances are equal, whatever they are, the bad ones are divided between the
two as in Fisher's exact test (1935). So no trouble that both have, and no change of the shares,
raises a false alarm. Blocks are strata, as in the test of Cochran (1954), Mantel and Haenszel.
`RateTest` compares with a rate that is known from before.
"""

from math import exp, lgamma, log, log1p

RATIOS = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0)
"""The odds ratios that are bet on, to equal parts (the method of mixtures; Robbins 1970)."""

FIRST_RESTART = 500
"""Outcomes of the canary after which a second bet begins, as if nothing had been seen before; there
is a further one at each doubling. So trouble that begins late is found, too."""

NEGLIGIBLE = 1e-17
"""A term of a sum, against the largest."""


class Evidence:
    """Bets on several odds ratios, begun one after the other."""

    __slots__ = ("_begins", "_bets", "_ratios", "_seen")

    def __init__(self, ratios: int = len(RATIOS)) -> None:
        self._seen = 0
        self._begins = FIRST_RESTART
        self._ratios = ratios
        # Of each bet the logarithms of its gain, by ratio. The j-th has 1/(j(j+1)) of the stake:
        # together never more than all of it.
        self._bets: list[list[float]] = [[0.0] * ratios]

    def multiply(self, gains: list[float], seen: int) -> None:
        """What was gained, in logarithms by ratio, by so many outcomes of the canary."""
        for bet in self._bets:
            for place, gain in enumerate(gains):
                bet[place] += gain
        self.see(seen)

    def see(self, seen: int) -> None:
        """So many outcomes, by which nothing was gained or lost."""
        self._seen += seen
        while self._seen >= self._begins:
            self._begins *= 2
            self._bets.append([0.0] * self._ratios)

    def log(self) -> float:
        """The logarithm of the evidence that the canary is worse."""
        terms = [-log1p(len(self._bets))]  # the stake that is not used yet
        for number, bet in enumerate(self._bets, 1):
            stake = -log(number * (number + 1) * self._ratios)
            terms += [stake + gain for gain in bet]
        largest = max(terms)
        return largest + log(sum(exp(term - largest) for term in terms))


class OddsTest:
    """Whether bad outcomes have higher odds at the canary than at the stable version."""

    __slots__ = ("evidence",)

    def __init__(self) -> None:
        self.evidence = Evidence()

    def add(self, canary: int, canary_bad: int, stable: int, stable_bad: int) -> None:
        """The outcomes of one block. When it ends may hang on how many there are, not on which."""
        bad = canary_bad + stable_bad
        if not canary or not stable or not bad or bad == canary + stable:
            self.evidence.see(canary)  # all are alike: nothing is learnt
            return
        fair = log_share(canary, canary_bad, stable, bad, 1.0)
        gains = [log_share(canary, canary_bad, stable, bad, ratio) - fair for ratio in RATIOS]
        self.evidence.multiply(gains, canary)


class RateTest:
    """Whether bad outcomes are more frequent than `rate`, which is more than 0 and less than 1."""

    __slots__ = ("_bad", "_good", "evidence")

    def __init__(self, rate: float, ratios: tuple[float, ...] = RATIOS) -> None:
        self.evidence = Evidence(len(ratios))
        scales = [1.0 - rate + rate * ratio for ratio in ratios]
        self._bad = [log(ratio / scale) for ratio, scale in zip(ratios, scales, strict=True)]
        self._good = [-log(scale) for scale in scales]

    def add(self, canary: int, canary_bad: int) -> None:
        """The outcomes since it was told last."""
        good = canary - canary_bad
        pairs = zip(self._bad, self._good, strict=True)
        self.evidence.multiply([canary_bad * b + good * g for b, g in pairs], canary)


def log_share(canary: int, canary_bad: int, stable: int, bad: int, ratio: float) -> float:
    """The logarithm of the chance that `canary_bad` of the `bad` outcomes are the canary's, where
    their odds there are so many times those at the stable version: Fisher's noncentral
    hypergeometric distribution.
    """
    least, most = max(0, bad - stable), min(bad, canary)
    if least == most:
        return 0.0

    def step(at: int) -> float:
        """How much likelier one more is."""
        return ratio * (canary - at) * (bad - at) / ((at + 1) * (stable - bad + at + 1))

    low, high = least, most  # the mode: steps grow less and less
    while low < high:
        middle = (low + high) // 2
        if step(middle) > 1.0:
            low = middle + 1
        else:
            high = middle
    mode = low
    total = term = 1.0
    at = mode
    while at < most and term > NEGLIGIBLE:
        term *= step(at)
        total += term
        at += 1
    term, at = 1.0, mode
    while at > least and term > NEGLIGIBLE:
        at -= 1
        term /= step(at)
        total += term

    def weight(at: int) -> float:
        return (
            at * log(ratio)
            - lgamma(at + 1)
            - lgamma(canary - at + 1)
            - lgamma(bad - at + 1)
            - lgamma(stable - bad + at + 1)
        )

    return weight(canary_bad) - weight(mode) - log(total)


def upper_bound(bad: int, of: int, alpha: float) -> float:
    """A rate that the true one exceeds with a chance of at most alpha, after so many outcomes (by
    Chernoff's bound, 1952): more than 0, at most 1.
    """
    if bad >= of:
        return 1.0
    limit = -log(alpha) / of
    share = bad / of
    low, high = share, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _divergence(share, middle) < limit:
            low = middle
        else:
            high = middle
    return high


def _divergence(share: float, rate: float) -> float:
    """Of Kullback and Leibler, between two yes-or-no distributions; 0 < rate < 1 unless equal."""
    if rate >= 1.0:
        return float("inf")
    rare = share * log(share / rate) if share else 0.0
    return rare + (1.0 - share) * log((1.0 - share) / (1.0 - rate))
