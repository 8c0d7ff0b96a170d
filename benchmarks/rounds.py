"""Measures deployments in turn, and compares them round by round.

Knows nothing of how they were started. The machine is not equally fast in every second, so
figures are compared within a round, where they lie next to each other in time, and the median
of the rounds' ratios counts.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import psutil  # type: ignore[import-untyped]  # ships no types

from benchmarks.load import Measurement

WARM_UP_S = 1
# First a server closes the connections of the run before, then one looks how busy the machine is
# while nothing is measured: a slow server may still work for clients that are gone. What a quiet
# machine and idle servers come to is well below this.
SETTLE_S = 0.1
LOOK_S = 0.2
LOOKS = 10
BUSY_PERCENT = 5.0


class Loadable(Protocol):
    """Something that can be measured."""

    def load(self, *, clients: int, seconds: int) -> Measurement:
        """Give it as much to do as so many clients can, for so long."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """How long, how often, with how many clients and in which draws; none are each case's own."""

    rounds: int
    seconds: int
    clients: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One workload under one number of clients: each server's measurements, round by round.

    `busy_percent` says how busy the machine was before each measurement, with every server idle.
    `floors` holds, by server, the ratio that Millstream should reach over it.
    """

    workload: str
    clients: int
    measurements: dict[str, list[Measurement]]
    busy_percent: list[float] = field(default_factory=list)
    floors: Mapping[str, float] = field(default_factory=dict)

    def fault(self, server: str) -> str:
        """What went wrong in any of this server's rounds; empty where nothing did."""
        return next((one.fault for one in self.measurements[server] if one.fault), "")

    def median(self, server: str) -> Measurement:
        """The medians of each figure over the rounds. Only without fault."""
        rounds = self.measurements[server]
        return Measurement(
            requests=sum(one.requests for one in rounds),
            requests_per_s=statistics.median(one.requests_per_s for one in rounds),
            p50_ms=statistics.median(one.p50_ms for one in rounds),
            p99_ms=statistics.median(one.p99_ms for one in rounds),
        )

    def ratio(self, server: str, other: str) -> float | None:
        """Median of the rounds' rates of `server` over those of `other`; None where one is bad."""
        if not {server, other} <= self.measurements.keys():
            return None
        if self.fault(server) or self.fault(other):
            return None
        return median_ratio(
            [one.requests_per_s for one in self.measurements[server]],
            [one.requests_per_s for one in self.measurements[other]],
        )


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the quotients of what was measured in the same round."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def rotated(names: Sequence[str], turns: int) -> list[str]:
    """The names in their order, begun `turns` places later, so that none is always first."""
    start = turns % len(names)
    return [*names[start:], *names[:start]]


def measure(
    workload: str,
    targets: Mapping[str, Loadable],
    settings: Settings,
    floors: Mapping[int, Mapping[str, float]],
) -> list[Row]:
    """All rounds for every number of clients, with every target idle but the measured one.

    Each is first loaded for a moment without looking at the figures. `floors` is keyed by the
    number of clients, then by the target.
    """
    for target in targets.values():
        target.load(clients=max(settings.clients), seconds=WARM_UP_S)
    rows = []
    for clients in settings.clients:
        row = Row(workload, clients, {name: [] for name in targets}, floors=floors.get(clients, {}))
        for turn in range(settings.rounds):
            for name in rotated(list(targets), turn):
                row.busy_percent.append(quiet())
                row.measurements[name].append(
                    targets[name].load(clients=clients, seconds=settings.seconds)
                )
        rows.append(row)
    return rows


def quiet() -> float:
    """Wait, not for long, until nothing works any more; and say how busy the machine still is."""
    time.sleep(SETTLE_S)
    busy_percent = 100.0
    for _ in range(LOOKS):
        busy_percent = psutil.cpu_percent(interval=LOOK_S)
        if busy_percent <= BUSY_PERCENT:
            break
    return busy_percent
