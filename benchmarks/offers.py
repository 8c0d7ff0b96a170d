"""Runs load generators against one server, each a process of its own, and reads what they found.

So neither disturbs another, nor does this process disturb them.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks import processes
from benchmarks.open_loop import Figures, Plan
from benchmarks.peers import environment
from benchmarks.peers.server import Target
from benchmarks.processes import Process

SPARE_S = 30.0


@dataclass(frozen=True, slots=True)
class Offer:
    """What one client sends, and the headers that it has beside those of the exchange."""

    plan: Plan
    headers: Mapping[str, str] = field(default_factory=dict)


def measure(target: Target, offers: Sequence[Offer]) -> list[Figures]:
    """Carry out all at the same time, and return what each found, in their order."""
    with (
        tempfile.TemporaryDirectory(prefix="poisson-bench-") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        body_file = folder / "request.body"
        body_file.write_bytes(target.exchange.body)
        started = [
            stack.enter_context(
                processes.running(
                    f"poisson-{number}",
                    _command(target, offer, body_file),
                    folder=folder,
                    environ=environment.variables(),
                )
            )
            for number, offer in enumerate(offers)
        ]
        return [_found(process, offer) for process, offer in zip(started, offers, strict=True)]


def _command(target: Target, offer: Offer, body_file: Path) -> list[str]:
    plan = offer.plan
    command = [sys.executable, "-m", "benchmarks.poisson", "--url", target.url]
    command += ["--rate", str(plan.rate_per_s), "--seconds", str(plan.seconds)]
    command += ["--deadline-ms", str(plan.deadline_s * 1e3), "--warm-up", str(plan.warm_up_s)]
    command += ["--seed", str(plan.seed), "--body", str(body_file)]
    for name, value in {**target.exchange.headers, **offer.headers}.items():
        command += ["--header", f"{name}: {value}"]
    return command


def _found(process: Process, offer: Offer) -> Figures:
    plan = offer.plan
    try:
        code = process.popen.wait(plan.warm_up_s + plan.seconds + plan.patience_s + SPARE_S)
    except subprocess.TimeoutExpired:
        return Figures(fault="the load generator did not end")
    if code != 0:
        return Figures(fault=f"the load generator exited with {code}: {process.log_tail()}")
    return msgspec.json.decode(process.log.read_bytes(), type=Figures)
