"""What it costs to be started by `serve`: the same engine, from one file and as single processes.

Both stand side by side, and are loaded in turn.
"""

import statistics

from benchmarks.cases import small
from benchmarks.peers.server import Server, Target

LEAST = 0.95
"""Of the rate of single processes: less than that is no noise."""


def run(
    separate: Server, served: Server, *, clients: tuple[int, ...], rounds: int, seconds: int
) -> str:
    """Print the figures; the fault that they have, or ""."""
    faults = []
    for workload in (small.ONE_STAGE, small.THREE_STAGES):
        with separate.deploy(workload) as one, served.deploy(workload) as other:
            for count in clients:
                shares = []
                for turn in range(rounds):
                    pair = (one, other) if turn % 2 == 0 else (other, one)
                    rates = {target.url: _rate(target, count, seconds) for target in pair}
                    if min(rates.values()) == 0.0:
                        return "a measurement failed"
                    shares.append(rates[other.url] / rates[one.url])
                share = statistics.median(shares)
                print(
                    f"{workload.title}, {count} clients: {rates[one.url]:.0f}/s, through serve "
                    f"{rates[other.url]:.0f}/s; of {rounds} pairs {share:.3f} "
                    f"({min(shares):.3f} to {max(shares):.3f})"
                )
                if share < LEAST:
                    faults.append(f"{workload.title}, {count} clients: {share:.3f} < {LEAST}")
    return "; ".join(faults)


def _rate(target: Target, clients: int, seconds: int) -> float:
    measured = target.load(clients=clients, seconds=seconds)
    if measured.fault:
        print(measured.fault)
        return 0.0
    return measured.requests_per_s
