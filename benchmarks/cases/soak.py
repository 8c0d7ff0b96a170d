"""Whether memory stays flat, and every answer right, under very many requests of mixed sizes."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import mixed, resident
from benchmarks.mixed import Job, WrongAnswer
from benchmarks.peers.server import Exchange, Server, Target, Workload
from benchmarks.resident import Resident

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "soak"
CLASSES = {"take": "Take", "turn": "Turn", "give": "Give"}
CLIENTS = 16
FIRST_REQUESTS = 10_000
STEPS = 10
# So many tiny requests push what a stage keeps out of it.
LAST_REQUESTS = 100
# Then the last messages about what is free go round, and what is not used goes back to the system.
SETTLE_S = 3.0
SEED = 20
GROWTH = 0.10
# What an allocator may take in however little there is.
SLACK_BYTES = 1024 * 1024
MIB = 1024 * 1024

_PROBE = Job(seed=1, side=8)
WORKLOAD = Workload(
    title="soak",
    folder=FOLDER,
    pipeline="soak",
    chain=tuple(CLASSES),
    classes=CLASSES,
    exchanges={
        "millstream": Exchange(
            "/pipelines/soak", _PROBE.body, f'{{"sum":{_PROBE.answer["sum"]},"bytes":768}}'
        )
    },
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What is held after so many answered requests, while nothing is under way."""

    requests: int
    processes: Mapping[str, Resident]
    shared_memory_bytes: int

    def figures(self) -> dict[str, int]:
        """Every figure that must not grow, by its name."""
        found = {}
        for role, held in self.processes.items():
            found[f"{role}, own"] = held.own_bytes
            found[f"{role}, shared"] = held.shared_bytes
        return found | {"/dev/shm": self.shared_memory_bytes}


def run(millstream: Server, *, requests: int) -> tuple[list[Sample], str]:
    """Sample after the first 10,000 (of few: half) and at the end; say what is wrong, or nothing.

    Every answer is checked, and that nothing is left in shared memory afterwards.
    """
    first = min(FIRST_REQUESTS, max(requests // 2, 1))
    chance = random.Random(SEED)
    samples: list[Sample] = []
    with millstream.deploy(WORKLOAD) as target:
        try:
            _send(target, 0, first, chance)
            samples.append(_sample(target, first))
            _send(target, first, requests, chance)
        except WrongAnswer as error:
            return samples, str(error)
        samples.append(_sample(target, requests))
        folders = _folders(target)
    left = [folder.name for folder in folders if folder.exists()]
    fault = verdict(*samples)
    return samples, fault or (f"left in /dev/shm: {', '.join(left)}" if left else "")


def _send(target: Target, sent: int, wanted: int, chance: random.Random) -> None:
    """Go on to `wanted` requests, a line for each tenth of them, and end with tiny ones."""
    for step in range(1, STEPS + 1):
        count = (wanted - sent) * step // STEPS - (wanted - sent) * (step - 1) // STEPS
        began = time.monotonic()
        mixed.send(target.url, mixed.jobs(count, chance), clients=CLIENTS)
        rate = count / (time.monotonic() - began)
        shown = sent + (wanted - sent) * step // STEPS
        print(f"{shown:>10,} requests, {rate:,.0f} a second", flush=True)
    mixed.send(target.url, mixed.tiny(LAST_REQUESTS), clients=1)


def _sample(target: Target, requests: int) -> Sample:
    time.sleep(SETTLE_S)
    processes = resident.family(target.pids)
    sample = Sample(
        requests=requests,
        processes={role: resident.resident(pid) for role, pid in processes.items()},
        shared_memory_bytes=sum(map(resident.allocated_bytes, _folders(target))),
    )
    print(describe(sample), flush=True)
    return sample


def _folders(target: Target) -> set[Path]:
    return resident.shared_folders(resident.family(target.pids).values())


def describe(sample: Sample) -> str:
    """A line for each process, and one for /dev/shm."""
    lines = [f"after {sample.requests:,} requests (MiB: own, shared memory that was touched)"]
    lines += [
        f"  {role:<28} {held.own_bytes / MIB:8.1f} {held.shared_bytes / MIB:8.1f}"
        for role, held in sample.processes.items()
    ]
    return "\n".join([*lines, f"  {'/dev/shm':<28} {sample.shared_memory_bytes / MIB:17.1f}"])


def verdict(first: Sample, last: Sample) -> str:
    """Which figures grew by more than a tenth; empty for none."""
    before, after = first.figures(), last.figures()
    if before.keys() != after.keys():
        return f"processes came or went: {', '.join(sorted(before.keys() ^ after.keys()))}"
    grown = [
        f"{name} grew from {before[name] / MIB:.1f} to {after[name] / MIB:.1f} MiB"
        for name in before
        if after[name] > before[name] * (1 + GROWTH) + SLACK_BYTES
    ]
    return "; ".join(grown)


def as_json(samples: list[Sample], fault: str) -> dict[str, object]:
    """The samples as plain data, in bytes."""
    return {
        "growth": GROWTH,
        "fault": fault,
        "samples": [{"requests": one.requests, **one.figures()} for one in samples],
    }
