"""Where a pipeline's requests go: which version answers what share of them, and how that changes.

Frozen data, and functions from one state to the next. The shell keeps the latest on disk. Which
versions are ready is not known here (`versions.py` is): one may have a share before it is there.
"""

import re
from collections.abc import Set
from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

MOST_VERSIONS = 64
"""In one split; and of labels. Far more than anybody can watch."""

MOST_REJECTED = 256

LABEL = re.compile(r"[A-Za-z0-9_]{1,64}")
"""As TensorFlow Serving's paths have them."""

STICKY = re.compile(r"request-id|(header|cookie):[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")

STABLE, CANARY = "stable", "canary"
"""Labels that follow from the split, and cannot be given."""

_WORD = 64
_MASK = (1 << _WORD) - 1
_GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: multiples of it, modulo 2^64, are spread evenly whatever their number
(Knuth, The Art of Computer Programming, volume 3, section 6.4)."""


class TrafficError(Exception):
    """What was asked for cannot be; the message is one line for whoever asked."""


class Promotion(Struct, frozen=True):
    """A version that is given more and more of the traffic."""

    version: str
    steps: tuple[float, ...]
    """Its share in percent, step by step."""
    every_s: float
    """How long each step lasts."""
    step: int = 0
    elapsed_s: float = 0.0
    """In this step, when this was written."""


class Traffic(Struct, frozen=True, kw_only=True):
    """The state of one pipeline's traffic."""

    weights: dict[str, float] = {}
    """The share of each version; they need not add up to anything. Empty before one was ready."""
    follows: bool = True
    """Whether the newest version takes over when it is ready."""
    stable: str = ""
    """The version that rollback returns to while traffic is split; else the one that has it all."""
    previous: str = ""
    """The one that was stable before."""
    shadow: str = ""
    """The version that gets copies of requests; nobody sees its answers."""
    sticky: str = ""
    """header:NAME, cookie:NAME or request-id: what decides who gets which version; "": nothing."""
    labels: dict[str, str] = {}
    """Names for versions, beside `stable` and `canary`."""
    rejected: dict[str, str] = {}
    """Versions that were rolled back, and why: they take over no more by themselves."""
    held: tuple[str, ...] = ()
    """Of these, those that no promotion may begin with: the guard ended them as a shadow."""
    promotion: Promotion | None = None

    @property
    def canary(self) -> str:
        """The version beside the stable one that has a share, or is the shadow; "" for none."""
        if self.promotion is not None:
            return self.promotion.version
        others = [v for v, share in self.weights.items() if share > 0 and v != self.stable]
        return max(others, key=age_key, default=self.shadow)

    def all_labels(self) -> dict[str, str]:
        """Every label that stands for a version now."""
        named = {STABLE: self.stable, CANARY: self.canary}
        return self.labels | {label: version for label, version in named.items() if version}

    def named(self) -> set[str]:
        """The versions that must be loaded for it."""
        names = {version for version, share in self.weights.items() if share > 0}
        names |= {self.stable, self.shadow} - {""}
        return names | {self.promotion.version} if self.promotion is not None else names


def age_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts versions from old to new: numbers in them count as numbers, so 9 < 10, v1.9 < v1.10."""
    parts = re.split(r"(\d+)", version)
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part)


# ------------------------------------------------------------------ changes


def assign(traffic: Traffic, weights: dict[str, float]) -> Traffic:
    """These shares from now on; what is rolled back may come in again so. Ends a promotion.

    Raises TrafficError for shares that are none.
    """
    if len(weights) > MOST_VERSIONS:
        raise TrafficError(f"traffic can be split among {MOST_VERSIONS} versions at most")
    for version, share in weights.items():
        if not isfinite(share) or share < 0:
            raise TrafficError(f"the share of version {version} must be 0 or more, not {share:g}")
    given = {version: float(share) for version, share in weights.items() if share > 0}
    total = sum(given.values())
    if not 0 < total < float("inf"):
        raise TrafficError("no version has a share: one at least must have more than 0")
    traffic = _forgive(traffic, given.keys())
    return _settle(replace(traffic, weights=given, follows=False, promotion=None))


def take_over(traffic: Traffic, version: str) -> Traffic:
    """The newest version is ready, and gets all."""
    return _settle(replace(traffic, weights={version: 1.0}))


def follow(traffic: Traffic) -> Traffic:
    """From now on the newest version takes over when it is ready."""
    return replace(traffic, follows=True, promotion=None)


def shadow(traffic: Traffic, version: str) -> Traffic:
    """This version gets copies; "" ends that. Raises TrafficError where it has a share."""
    if version and traffic.weights.get(version):
        raise TrafficError(f"version {version} has a share of the traffic: it cannot be the shadow")
    return replace(_forgive(traffic, {version}), shadow=version)


def turn_away(traffic: Traffic, why: str) -> Traffic:
    """The shadow ends, and is rejected; no promotion may begin with it before it has been the
    shadow again, or was given a share.
    """
    version = traffic.shadow
    rejected = _reject(traffic, {version}, why)
    held = tuple(v for v in (*traffic.held, version) if v in rejected)
    return replace(traffic, shadow="", rejected=rejected, held=held)


def stick(traffic: Traffic, rule: str) -> Traffic:
    """Who gets which version is decided so; "" leaves it open. Raises TrafficError."""
    if rule and STICKY.fullmatch(rule) is None:
        raise TrafficError(f"sticky is header:NAME, cookie:NAME or request-id, not {rule!r}")
    return replace(traffic, sticky=rule)


def label(traffic: Traffic, changes: dict[str, str]) -> Traffic:
    """These names stand for these versions; one that stands for "" is taken away.

    Raises TrafficError.
    """
    labels = dict(traffic.labels)
    for name, version in changes.items():
        if name in (STABLE, CANARY):
            raise TrafficError(f"the label {name} follows from the traffic, and cannot be given")
        if LABEL.fullmatch(name) is None:
            raise TrafficError(f"a label is 1 to 64 of A-Z a-z 0-9 _, not {name!r}")
        labels[name] = version
    labels = {name: version for name, version in labels.items() if version}
    if len(labels) > MOST_VERSIONS:
        raise TrafficError(f"there can be {MOST_VERSIONS} labels at most")
    return replace(traffic, labels=labels)


def roll_back(traffic: Traffic, why: str) -> Traffic:
    """All goes to the stable version of a split, else to the one before; what had it is rejected,
    and the shadow with it while it is the version that is being tried out.

    Raises TrafficError where there is nothing to return to.
    """
    is_split = any(share > 0 and v != traffic.stable for v, share in traffic.weights.items())
    if traffic.shadow and not is_split and traffic.promotion is None:
        return replace(traffic, shadow="", rejected=_reject(traffic, {traffic.shadow}, why))
    back_to = traffic.stable if is_split or traffic.promotion is not None else traffic.previous
    if not back_to:
        raise TrafficError("there is no version before to return to")
    tried = {version for version, share in traffic.weights.items() if share > 0}
    if traffic.promotion is not None:
        tried.add(traffic.promotion.version)
    return replace(
        traffic,
        weights={back_to: 1.0},
        stable=back_to,
        previous=traffic.previous if back_to == traffic.stable else "",
        rejected=_reject(traffic, tried - {back_to}, why),
        promotion=None,
    )


def _forgive(traffic: Traffic, versions: Set[str]) -> Traffic:
    """Somebody wants these again, whatever they were rejected for."""
    rejected = {v: why for v, why in traffic.rejected.items() if v not in versions}
    held = tuple(v for v in traffic.held if v not in versions)
    return replace(traffic, rejected=rejected, held=held)


def _reject(traffic: Traffic, versions: set[str], why: str) -> dict[str, str]:
    rejected = traffic.rejected | dict.fromkeys(versions, why)
    return dict(list(rejected.items())[-MOST_REJECTED:])


def _settle(traffic: Traffic) -> Traffic:
    """The stable version is the one that was, while it has a share; else the one with the largest,
    the older of two. What a version was before that has all now is remembered.
    """
    shares = traffic.weights
    stable = traffic.stable
    if not shares.get(stable):
        stable = max(sorted(shares, key=age_key), key=lambda version: shares[version])
    shadow = "" if shares.get(traffic.shadow) else traffic.shadow
    if stable == traffic.stable:
        return replace(traffic, shadow=shadow)
    return replace(traffic, stable=stable, previous=traffic.stable, shadow=shadow)


# ------------------------------------------------------------------ promotions


def promote(traffic: Traffic, version: str, *, steps: tuple[float, ...], every_s: float) -> Traffic:
    """Begin to give this version more and more. Raises TrafficError."""
    if not traffic.stable:
        raise TrafficError("no version is stable yet that it could be promoted from")
    if version == traffic.stable:
        raise TrafficError(f"version {version} is the stable one already")
    if not steps or list(steps) != sorted(set(steps)) or not 0 < steps[0] <= steps[-1] <= 100:
        raise TrafficError("steps are growing shares in percent, more than 0 and at most 100")
    if not isfinite(every_s) or every_s <= 0:
        raise TrafficError("the time of a step must be more than 0")
    if version in traffic.held:
        raise TrafficError(
            f"version {version} is not promoted: as the shadow it was rejected "
            f"({traffic.rejected.get(version, '')}); make it the shadow again, or give it a share"
        )
    begun = replace(_forgive(traffic, {version}), promotion=Promotion(version, steps, every_s))
    return _at_step(begun, 0)


def next_step(traffic: Traffic) -> Traffic:
    """The time of a step is over: the next, or the end, where the version keeps what it has."""
    promotion = traffic.promotion
    assert promotion is not None, "only a promotion has steps"
    if promotion.step + 1 < len(promotion.steps):
        return _at_step(traffic, promotion.step + 1)
    return _settle(replace(traffic, promotion=None))


def halt(traffic: Traffic) -> Traffic:
    """End a promotion where it stands. Raises TrafficError where there is none."""
    if traffic.promotion is None:
        raise TrafficError("no version is being promoted")
    return _settle(replace(traffic, promotion=None))


def _at_step(traffic: Traffic, step: int) -> Traffic:
    promotion = traffic.promotion
    assert promotion is not None, "only a promotion has steps"
    share = promotion.steps[step]
    weights = {traffic.stable: 100.0 - share, promotion.version: share}
    return replace(
        traffic,
        weights={version: each for version, each in weights.items() if each > 0},
        shadow="" if traffic.shadow == promotion.version else traffic.shadow,
        promotion=replace(promotion, step=step, elapsed_s=0.0),
    )


# ------------------------------------------------------------------ the choice


class Split:
    """A version for each request, in the proportions of the traffic."""

    __slots__ = ("_bounds", "_count", "only", "shares")

    def __init__(self, traffic: Traffic, ready: set[str], before: "Split | None" = None) -> None:
        """Among the `ready` versions. Where none that has a share is, the stable one answers, or
        else the newest; where none is ready at all, requests wait for those that have a share.
        `before` is what this one takes the place of: however often that happens, requests between
        are divided as one run.
        """
        shares = {v: share for v, share in traffic.weights.items() if v in ready}
        if not shares and traffic.stable in ready:
            shares = {traffic.stable: 1.0}
        if not shares and ready:
            shares = {max(ready, key=age_key): 1.0}
        if not shares:
            shares = dict(traffic.weights)
        # The stable one first: while another's share grows nobody comes back from it.
        ordered = sorted(shares, key=lambda v: (v != traffic.stable, age_key(v)))
        self.only = ordered[0] if len(ordered) == 1 else ""
        """The version that all get; "" where they differ."""
        total, until = sum(shares.values()), 0.0
        self.shares = {version: shares[version] / total for version in ordered}
        """What each one gets now, 1.0 in all; empty where no version is known."""
        self._count: int = 0 if before is None else before._count
        self._bounds: list[tuple[int, str]] = []
        for version in ordered:
            until += shares[version]
            self._bounds.append((int(until / total * (1 << _WORD)), version))

    def choose(self, key: int) -> str:
        """A request's version: for one with a `key` always the same, for one without (0) so that
        any run of requests is divided as nearly as can be. "" where no version is known.
        """
        if self.only or not self._bounds:
            return self.only
        if key:
            point = _scramble(key)
        else:
            self._count += 1
            point = self._count * _GOLDEN & _MASK
        for bound, version in self._bounds:
            if point < bound:
                return version
        return self._bounds[-1][1]


def _scramble(key: int) -> int:
    """Spreads keys evenly over 64 bits (the finalizer of splitmix64, after Steele, Lea and Flood,
    Fast Splittable Pseudorandom Number Generators, 2014)."""
    key = (key + _GOLDEN) & _MASK
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    key = (key ^ key >> 27) * 0x94D049BB133111EB & _MASK
    return key ^ key >> 31
