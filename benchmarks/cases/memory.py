"""Whether the broker's memory stays small and flat under very many small requests."""

import math
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]  # ships no types

from benchmarks import load
from benchmarks.cases.small import ONE_STAGE
from benchmarks.peers.server import Server, Target

CLIENTS = 64
STEPS = 10
FIRST_SLICE_S = 1
LIMIT_MIB = 80.0
# What an allocator may still take in after the first tenth; more is a leak.
GROWTH_MIB = 3.0
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident memory after so many answered requests."""

    requests: int
    broker_mib: float
    gateway_mib: float


def run(millstream: Server, *, requests: int) -> tuple[list[Sample], str]:
    """Sample before and at each tenth, printing it; and say what is wrong, or nothing.

    wrk runs for a time, not for a number, so that each tenth ends a little late.
    """
    with millstream.deploy(ONE_STAGE) as target:
        samples = [_sample(target.pids, 0)]
        print(describe(samples[0]), flush=True)
        sent = 0
        for step in range(1, STEPS + 1):
            sent, fault = _send_until(target, sent, requests * step // STEPS)
            if fault:
                return samples, fault
            samples.append(_sample(target.pids, sent))
            print(describe(samples[-1]), flush=True)
    return samples, verdict(samples)


def _send_until(target: Target, sent: int, wanted: int) -> tuple[int, str]:
    seconds = FIRST_SLICE_S
    while sent < wanted:
        done = load.run(target.url, target.script_file, clients=CLIENTS, seconds=seconds)
        if done.fault:
            return sent, done.fault
        sent += done.requests
        seconds = max(1, math.ceil((wanted - sent) / done.requests_per_s))
    return sent, ""


def _sample(pids: dict[str, int], requests: int) -> Sample:
    def resident_mib(role: str) -> float:
        return float(psutil.Process(pids[role]).memory_info().rss / MIB)

    return Sample(requests, resident_mib("broker"), resident_mib("gateway"))


def describe(sample: Sample) -> str:
    """One line for one sample."""
    return (
        f"{sample.requests:>10,} requests: broker {sample.broker_mib:6.1f} MiB, "
        f"gateway {sample.gateway_mib:6.1f} MiB"
    )


def verdict(samples: list[Sample]) -> str:
    """What the samples (before, first tenth, …) say against the broker; empty for nothing."""
    peak = max(sample.broker_mib for sample in samples)
    growth = samples[-1].broker_mib - samples[1].broker_mib
    if peak >= LIMIT_MIB:
        return f"the broker took {peak:.1f} MiB; it may take {LIMIT_MIB:.0f}"
    if growth > GROWTH_MIB:
        return f"the broker grew by {growth:.1f} MiB after the first tenth"
    return ""


def as_json(samples: list[Sample], fault: str) -> dict[str, object]:
    """The samples as plain data."""
    return {
        "limit_mib": LIMIT_MIB,
        "fault": fault,
        "samples": [
            {
                "requests": sample.requests,
                "broker_mib": round(sample.broker_mib, 2),
                "gateway_mib": round(sample.gateway_mib, 2),
            }
            for sample in samples
        ],
    }
