"""Measures deployments in pairs with the one that they are compared with.

All stand side by side, and are idle but for the measured one. The pairs of one comparison follow
each other, so that both sides come equally often: one that has stood longer is slower for it, by
several percent. Which side of a pair comes first is drawn.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, TypeAlias

from benchmarks import rounds
from benchmarks.estimate import Estimate, estimate
from benchmarks.load import Measurement
from benchmarks.rounds import Settings


class Watched(Protocol):
    """Something that can be measured, and whose processor time is known."""

    def load(self, *, clients: int, seconds: int) -> Measurement:
        """See `rounds.Loadable`."""
        ...

    def processor_s(self) -> float:
        """That it has used since it was started."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement, and the processor time until all was still again."""

    found: Measurement
    processor_s: float

    @property
    def request_us(self) -> float:
        """Processor time of a request; 0 where none was answered."""
        return self.processor_s / self.found.requests * 1e6 if self.found.requests else 0.0


Pair: TypeAlias = tuple[Sample, Sample]
"""Of the base, and of the one that is compared with it, next to each other in time."""


Figure: TypeAlias = Callable[[Sample], float]


@dataclass(frozen=True, slots=True)
class Pairs:
    """All of one workload: `found` is keyed by what was compared with the base."""

    workload: str
    clients: int
    base: str
    found: Mapping[str, list[Pair]]
    busy_percent: list[float] = field(default_factory=list)

    def samples(self, name: str) -> list[Sample]:
        """All of this one."""
        if name == self.base:
            return [base for pairs in self.found.values() for base, _ in pairs]
        return [one for _, one in self.found[name]]

    def fault(self, name: str) -> str:
        """What went wrong in any measurement of this one; empty where nothing did."""
        return next((one.found.fault for one in self.samples(name) if one.found.fault), "")

    def median(self, name: str, figure: Figure) -> float:
        """Of a figure of this one. Only without fault."""
        return statistics.median(figure(one) for one in self.samples(name))

    def share(self, name: str, figure: Figure) -> Estimate | None:
        """What this one's figure is of the base's; None where one is bad."""
        pairs = self.found[name]
        if any(one.found.fault for pair in pairs for one in pair):
            return None
        return estimate([figure(one) / figure(base) for base, one in pairs])


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Of several deployments of the same workload, which were measured one after the other."""
    first = parts[0]
    found = {name: [each for part in parts for each in part.found[name]] for name in first.found}
    busy_percent = [look for part in parts for look in part.busy_percent]
    return Pairs(first.workload, first.clients, first.base, found, busy_percent)


def rate(sample: Sample) -> float:
    """Requests a second."""
    return sample.found.requests_per_s


def request_us(sample: Sample) -> float:
    """Processor time of a request."""
    return sample.request_us


def measure(
    workload: str,
    targets: Mapping[str, Watched],
    base: str,
    compared: Mapping[str, int],
    settings: Settings,
    *,
    random: Random,
) -> Pairs:
    """All rounds, for the one number of clients of the settings. `compared` says how many pairs of
    each belong to a round.

    Before its first pair each is loaded for a moment without looking at the figures.
    """
    (clients,) = settings.clients
    found: dict[str, list[Pair]] = {}
    busy_percent = []

    def sample(name: str) -> Sample:
        target = targets[name]
        before_s = target.processor_s()
        measured = target.load(clients=clients, seconds=settings.seconds)
        busy_percent.append(rounds.quiet())
        return Sample(measured, target.processor_s() - before_s)

    for name in random.sample(list(compared), len(compared)):
        for warmed in (base, name):
            targets[warmed].load(clients=clients, seconds=rounds.WARM_UP_S)
        busy_percent.append(rounds.quiet())
        found[name] = []
        for _ in range(compared[name] * settings.rounds):
            order = random.sample((base, name), 2)
            samples = {each: sample(each) for each in order}
            found[name].append((samples[base], samples[name]))
    return Pairs(workload, clients, base, found, busy_percent)
