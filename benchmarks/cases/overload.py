"""Overload: how much is answered in time when more is sent than one worker can do.

What a batch takes and until when answers are wanted is drawn by chance; arrivals are Poisson, at
fractions and multiples of the capacity. Nothing is tuned but where it says so. Each server is
alone on the machine while it is measured.
"""

import time
from collections.abc import Mapping

from benchmarks import curves, goodput, offers, processes, rounds
from benchmarks.cases import draws
from benchmarks.cases.case import Finding, tell
from benchmarks.goodput import Row
from benchmarks.offers import Offer
from benchmarks.open_loop import Plan
from benchmarks.peers.server import Server, Target
from benchmarks.processes import StartFailed
from benchmarks.report import Picture, Section
from benchmarks.rounds import Settings

LOADS = (0.5, 0.9, 1.2, 2.0, 5.0)
# What is drawn for each chain, by its seed.
SEEDS = {"one": (1, 2), "three": (3,)}
NOTE = (
    "A batch of b takes t(b) = a + c·b, 16 at most, while the worker sleeps; of three stages the "
    "middle one does so. a, c and the deadline, 5 to 8 times t(16), are drawn by chance. Poisson "
    "arrivals, the load in times of the capacity 16/t(16); clients hang up after three deadlines. "
    "The figures are what was answered in time, of all that could be (what was sent, or the "
    "capacity), and the median ms of refusals. Millstream is told the deadline with each request, "
    "and has no setting for any of this. Tuned, Triton is told how long a request may queue: the "
    "deadline less twice t(16), which is found by trying, for each model and deadline anew."
)
# Longer than any server takes to be done with requests that nobody waits for.
SETTLE_TIMEOUT_S = 10.0


class Overload:
    """The case. Each round has another draw, as far as there are seeds, or each seed is one."""

    needs_wrk = False

    def takes(self, server: str) -> bool:
        """Whether this server has a part in it."""
        return server in draws.SERVERS

    def run(
        self, servers: Mapping[str, Server], titles: Mapping[str, str], settings: Settings
    ) -> Finding:
        """Measure one server after the other in each draw, under all loads."""
        mine = {name: server for name, server in servers.items() if self.takes(name)}
        columns = {name: title for name, title in titles.items() if self.takes(name)}
        rows: list[Row] = []
        failures: dict[str, str] = {}
        drawn = [
            (chain, seed)
            for chain, seeds in SEEDS.items()
            for seed in settings.seeds or seeds[: settings.rounds]
        ]
        for turn, (chain, seed) in enumerate(drawn):
            order = {name: mine[name] for name in rounds.rotated(list(mine), turn)}
            rows += _measure(chain, seed, order, settings.seconds, failures)
        section = Section(
            title="Overload",
            note=NOTE,
            servers=tuple(columns),
            how=f"{settings.seconds} s of each load, after one that does not count",
            load="benchmarks/poisson.py",
            header=goodput.header(columns),
            lines=goodput.lines(rows, columns),
            data=[goodput.as_data(row) for row in rows],
            faults=[found.fault for row in rows for found in row.figures.values() if found.fault],
            busy_percent=[look for row in rows for look in row.busy_percent],
            picture=Picture(
                "overload.svg", "goodput over offered load", curves.lines(rows, columns)
            ),
        )
        return Finding(section, failures)


def _measure(
    chain: str, seed: int, servers: Mapping[str, Server], seconds: float, failures: dict[str, str]
) -> list[Row]:
    times = draws.draw(seed)
    workload = draws.workload(times, chain)
    rows = [Row(workload.title, load, times.capacity_per_s) for load in LOADS]
    for name, server in servers.items():
        tell(f"{workload.title}: {server.title} …")
        try:
            with server.deploy(workload) as target:
                for row in rows:
                    plan = Plan(
                        rate_per_s=row.load * times.capacity_per_s,
                        seconds=seconds,
                        deadline_s=times.deadline_ms / 1e3,
                        seed=seed,
                    )
                    row.busy_percent.append(_settled(target, plan.deadline_s))
                    [row.figures[name]] = offers.measure(target, [Offer(plan)])
        except StartFailed as error:
            failures.setdefault(name, f"{workload.title}: {error}")
    return rows


def _settled(target: Target, deadline_s: float) -> float:
    """Wait, not for long, until a lone request is in time again; and say how busy it is then.

    A server may still work for clients that are gone, which on these workers takes no processor.
    """
    give_up = time.monotonic() + SETTLE_TIMEOUT_S
    while (began := time.monotonic()) < give_up:
        status, _ = processes.fetch(target.url, target.exchange.body, target.exchange.headers)
        if status == 200 and time.monotonic() - began <= deadline_s:
            break
    return rounds.quiet()


CASE = Overload()
