"""`python -m tests.fuzz`: changed messages, bodies and requests for as long as one likes.

Prints executions a second, what has grown, and every finding with its seed; exits 1 if there was
one. A run with the same seed finds the same again.
"""

import argparse
import resource
import sys
import traceback
from collections.abc import Callable
from random import Random, SystemRandom

from tests.fuzz.bodies import Bodies
from tests.fuzz.messages import Messages
from tests.fuzz.surface import Surface
from tests.fuzz.target import Run, Target, run
from tests.fuzz.tensors import Tensors

MEMORY_BYTES = 8 << 30
"""What a process may ask the system for: beyond it, what an input only claims to hold is found."""

TARGETS: dict[str, Callable[[Random], Target]] = {
    target.name: target for target in (Messages, Bodies, Tensors, Surface)
}


def main() -> int:
    """One target after the other; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target (default 60)")
    parser.add_argument("--seed", type=int, default=SystemRandom().getrandbits(32))
    parser.add_argument("--only", choices=list(TARGETS), help="one target alone")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))
    findings = 0
    for name, make in TARGETS.items():
        if options.only in (None, name):
            findings += _fuzz(name, make, options.seed, options.seconds)
    return 1 if findings else 0


def _fuzz(name: str, make: Callable[[Random], Target], seed: int, seconds: float) -> int:
    """Drive one target, beginning anew with the next seed after each finding; how many there were.

    A target that a finding has left in disorder is not used again.
    """
    findings = 0
    while seconds > 0.0:
        ran = run(make, seed, most_s=seconds)
        _show(name, seed, ran)
        findings += ran.finding is not None
        seconds -= max(ran.seconds, 0.1)
        seed += 1
    return findings


def _show(name: str, seed: int, ran: Run) -> None:
    rate = ran.inputs / max(ran.seconds, 1e-9)
    left = "".join(f", {what} {value}" for what, value in ran.left.items())
    sys.stdout.write(f"{name} (seed {seed}): {ran.inputs:,} inputs, {rate:,.0f}/s{left}\n")
    if ran.finding is not None:
        sys.stdout.write(f"FOUND: {ran.finding}\n")
        traceback.print_exception(ran.finding.__cause__, file=sys.stdout)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
