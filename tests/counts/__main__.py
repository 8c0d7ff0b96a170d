"""`python -m tests.counts`: many mixed requests, failures and worker deaths, and whether the counts
of clients, gateway and broker agree. Exits 1 where they do not.
"""

import argparse
import sys

from tests.counts.run import play

OF_GATEWAY = (
    "requests_total", "gateway_submitted_total", "gateway_settled_total",
    "gateway_dropped_messages_total",
)  # fmt: skip
OF_BROKER = (
    "admitted_total", "refused_total", "answers_total", "cancelled_total", "items_requeued_total",
    "worker_joins_total", "worker_losses_total", "plugin_seen_total",
)  # fmt: skip


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.counts", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, help="how many (100,000)")
    parser.add_argument("--clients", type=int, default=64, help="at once (64)")
    parser.add_argument("--deaths", type=int, default=40, help="requests that kill workers (40)")
    parser.add_argument("--workers", type=int, default=4, help="of the stage that dies (4)")
    options = parser.parse_args()
    outcome = play(
        count=options.requests,
        clients=options.clients,
        deaths=options.deaths,
        workers=options.workers,
    )
    lines = [f"{outcome.seen.sent} requests, {outcome.seen.gone} of them given up"]
    answers = sorted(outcome.seen.answers.items())
    lines += [f"  {status} {code}: {count}" for (status, code), count in answers]
    lines += [f"gateway {name}: {outcome.gateway.sum(name)}" for name in OF_GATEWAY]
    lines += [f"broker {name}: {outcome.broker.sum(name)}" for name in OF_BROKER]
    series = [len(page.series) for page in (outcome.gateway, outcome.broker)]
    lines.append(f"series: gateway {series[0]}, broker {series[1]}")
    lines += [f"new in the second half: {series}" for series in outcome.new_series]
    lines += outcome.faults or ["all agree"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
