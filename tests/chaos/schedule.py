"""Which faults happen when: drawn from a seed before anything runs.

Pure, and of no deployment in particular: a fault names whom it hits by a number, which whoever
plays the schedule takes modulo those that are there.
"""

from collections.abc import Mapping
from enum import StrEnum
from random import Random

from msgspec import Struct


class Kind(StrEnum):
    """What goes wrong. The names stand in the table at the end."""

    WORKER_KILLED = "worker killed"
    STAGE_KILLED = "all workers of a stage killed"
    SUPERVISOR_KILLED = "supervisor killed"
    GATEWAY_KILLED = "gateway killed"
    BROKER_KILLED = "broker killed"
    WORKER_STOPPED = "worker stopped for a while"
    SUPERVISOR_STOPPED = "supervisor stopped for a while"
    GATEWAY_STOPPED = "gateway stopped for a while"
    BROKER_STOPPED = "broker stopped for a while"
    WORKER_DRAINED = "worker told to end"
    SUPERVISOR_DRAINED = "supervisor told to end"
    GATEWAY_DRAINED = "gateway told to end"
    BROKER_DRAINED = "broker told to end"
    POISON_DIE = "request that kills by a signal"
    POISON_SEGFAULT = "request that kills by a segfault"
    POISON_HANG = "request that hangs"
    POISON_RAISE = "request that raises"
    POISON_MEMORY = "request that finds no memory"
    FLOOD = "flood of one client"
    SLOW_CLIENTS = "clients that send slowly"
    VANISHING_CLIENTS = "clients that vanish"
    DISK_FULL = "disk full for a while"
    MEMORY_FULL = "shared memory full for a while"
    VERSION_COMES = "new version"
    LOADING_KILLED = "supervisor killed while it loads a version"
    ROLLED_BACK = "rollback"
    TRAFFIC_CHANGED = "shares, shadow or promotion"


POISONS = {
    Kind.POISON_DIE: "die",
    Kind.POISON_SEGFAULT: "segfault",
    Kind.POISON_HANG: "hang",
    Kind.POISON_RAISE: "raise",
    Kind.POISON_MEMORY: "memory",
}
"""What an item asks for, by the kind of fault."""

KILLS = {
    Kind.WORKER_KILLED: 10,
    Kind.STAGE_KILLED: 1,
    Kind.SUPERVISOR_KILLED: 3,
    Kind.GATEWAY_KILLED: 2,
    Kind.BROKER_KILLED: 1,
}
"""kill -9 from outside: how often each, compared with the others."""
MISHAPS = {
    Kind.WORKER_STOPPED: 3,
    Kind.WORKER_DRAINED: 2,
    Kind.FLOOD: 2,
    Kind.SLOW_CLIENTS: 2,
    Kind.VANISHING_CLIENTS: 2,
    Kind.POISON_DIE: 2,
    Kind.POISON_SEGFAULT: 2,
    Kind.POISON_RAISE: 2,
    Kind.POISON_MEMORY: 2,
    Kind.POISON_HANG: 1,
    Kind.SUPERVISOR_STOPPED: 1,
    Kind.GATEWAY_STOPPED: 1,
    Kind.BROKER_STOPPED: 1,
    Kind.SUPERVISOR_DRAINED: 1,
    Kind.GATEWAY_DRAINED: 1,
    Kind.BROKER_DRAINED: 1,
    Kind.DISK_FULL: 1,
    Kind.MEMORY_FULL: 1,
}
"""All else that happens to a deployment, as often as kills do."""

ROLLOUTS = {
    Kind.VERSION_COMES: 3,
    Kind.TRAFFIC_CHANGED: 3,
    Kind.ROLLED_BACK: 1,
    Kind.LOADING_KILLED: 1,
}
"""What is done with versions, meanwhile."""
ROLLOUT_PART = 5
"""One of these for so many kills: a version takes its time to be loaded."""

OF_ONE = {
    *ROLLOUTS,
    Kind.STAGE_KILLED,
    Kind.BROKER_KILLED,
    Kind.BROKER_STOPPED,
    Kind.BROKER_DRAINED,
    Kind.DISK_FULL,
    Kind.MEMORY_FULL,
}
"""Of what these hit there are no more in a larger deployment."""

DOWN_S = (0.0, 0.5)
"""How long whoever has ended stays away, but for workers, which their supervisor replaces."""
LENGTHS_S = {
    Kind.WORKER_STOPPED: (0.1, 6.5),  # after five seconds it is replaced
    Kind.SUPERVISOR_STOPPED: (0.1, 4.5),  # after three it is taken for dead
    Kind.GATEWAY_STOPPED: (0.1, 4.5),
    Kind.BROKER_STOPPED: (0.1, 1.5),
    Kind.SLOW_CLIENTS: (0.5, 2.0),
    Kind.DISK_FULL: (0.5, 5.0),
    Kind.MEMORY_FULL: (0.5, 5.0),
    Kind.LOADING_KILLED: (0.0, 0.5),  # so soon after the version has come
}


class Fault(Struct, frozen=True):
    """Something that goes wrong at a moment, to one of its kind, for a while."""

    at_s: float
    kind: Kind
    which: int
    for_s: float


def draw(
    seed: int, *, seconds: float, rate: float, scale: int = 1, has_versions: bool = False
) -> list[Fault]:
    """The faults of so many seconds in order: `rate` kills a second, as much other trouble, and
    where there are versions something about these now and then.

    `scale`: how many times as many gateways, workers and clients there are to have faults; there is
    one broker all the same, one host, and the same stages. Each kind comes once before any comes
    twice.
    """
    chance = Random(seed)
    count = round(seconds * rate)
    kinds = _kinds(chance, KILLS, count) + _kinds(chance, MISHAPS, count)
    if has_versions:
        kinds += _kinds(chance, ROLLOUTS, round(count / ROLLOUT_PART))
    faults = [
        Fault(
            at_s=chance.uniform(0.0, seconds),
            kind=kind,
            which=chance.randrange(1 << 16),
            for_s=chance.uniform(*LENGTHS_S.get(kind, DOWN_S)),
        )
        for kind in kinds
        for _ in range(1 if kind in OF_ONE else scale)
    ]
    return sorted(faults, key=lambda fault: fault.at_s)


def _kinds(chance: Random, weights: Mapping[Kind, int], count: int) -> list[Kind]:
    each = chance.sample(list(weights), min(count, len(weights)))
    more = chance.choices(list(weights), list(weights.values()), k=count - len(each))
    return each + more
