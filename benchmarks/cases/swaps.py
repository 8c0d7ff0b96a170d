"""New versions that take over under load: whether anybody notices, and whether memory comes back.

Millstream alone, since the others know no versions, or load them in the process that serves.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Self

from benchmarks import offers, rounds
from benchmarks.cases.case import Finding, ours_alone, tell
from benchmarks.offers import Offer
from benchmarks.open_loop import Figures, Plan
from benchmarks.peers.server import Exchange, Server, Target
from benchmarks.report import OURS, Section
from benchmarks.rounds import Settings
from tests.rollout.mill import STAGES, Mill
from tests.system.deployment import Deployment, wait_until

SWAPS = 20
CLIENTS = 64
MIB = 1 << 20

PLUGIN = Path(__file__).resolve().parent.parent / "plugins" / "swaps" / "millstream_plugin.py"
# t(b) = 5 + 0.25·b ms, 16 at most, one worker.
CAPACITY_PER_S = 16 / 0.009
LOAD = 0.5
SETUPS = {"sleep 1.0": "its setup sleeps for a second", "spin 1.0": "its setup computes for one"}
DEADLINE_S = 1.0
MOST_TIMES = 2.0
# A load generator starts, then it warms up, and then it counts, for about as long as a swap takes.
START_S = 0.5
WARM_UP_S = 1.0
SECONDS = 2.5
TAKEN_OVER_S = 30.0
NOTE = (
    "A new version is put into a model repository, loaded beside the one that serves, takes over, "
    "and the old one ends. First again and again, two stages, 64 clients that check who answered, "
    "and when that process was ready; memory is the PSS of all processes, with one version loaded. "
    "Then once, amid Poisson arrivals at half of the capacity (t(b) = 5 + 0.25·b ms, 16 at most): "
    "the 99th percentile of the times without a swap, and while one goes on."
)
NONE = "–"


@dataclass(frozen=True, slots=True)
class Series:
    """Swaps one after the other: answers, those that were none or wrong, and memory."""

    swaps: int
    answers: int
    failed: int
    too_early: str
    before_bytes: int
    after_bytes: int
    busy_percent: float


@dataclass(frozen=True, slots=True)
class Swap:
    """One swap under an open load, and the same load without it."""

    setup: str
    before: Figures
    during: Figures
    took_s: float
    busy_percent: float

    @property
    def fault(self) -> str:
        """Why this is no measurement, or what must not be."""
        return self.before.fault or self.during.fault


class Swaps:
    """The case."""

    needs_wrk = False

    takes = staticmethod(ours_alone)

    def run(
        self, servers: Mapping[str, Server], titles: Mapping[str, str], settings: Settings
    ) -> Finding:
        """Measure once."""
        if OURS not in servers:
            return Finding(_section(None, []), {})
        tell(f"{SWAPS} swaps …")
        series = _series()
        swaps = []
        for setup, words in SETUPS.items():
            tell(f"a swap, {words} …")
            swaps.append(_swap(setup))
        return Finding(_section(series, swaps), {})


def _section(series: Series | None, swaps: list[Swap]) -> Section:
    done = [series] if series is not None else []
    measured: list[Series | Swap] = [*done, *swaps]
    faults = [each.fault for each in swaps if each.fault]
    faults += [f"{each.failed} requests failed" for each in done if each.failed]
    faults += [each.too_early for each in done if each.too_early]
    return Section(
        title="Swaps of versions",
        note=NOTE,
        servers=(OURS,),
        how=f"{SWAPS} swaps in a row, then one with each setup",
        load="64 threads, then benchmarks/poisson.py,",
        header=["work", "requests", "failed", "too early", "MiB", "p99 ms", "in a swap", "÷"],
        lines=lines(done, swaps),
        data=[asdict(each) for each in measured],
        faults=faults,
        busy_percent=[each.busy_percent for each in measured],
    )


def lines(series: list[Series], swaps: list[Swap]) -> list[list[str]]:
    """The cells."""
    cells = [
        [
            f"{each.swaps} swaps, {CLIENTS} clients",
            f"{each.answers:,}",
            str(each.failed),
            each.too_early or "0",
            f"{each.before_bytes / MIB:.0f}, then {each.after_bytes / MIB:.0f}",
            *[NONE] * 3,
        ]
        for each in series
    ]
    return cells + [_cells(each) for each in swaps]


def _cells(swap: Swap) -> list[str]:
    work = f"{LOAD * CAPACITY_PER_S:.0f}/s, {SETUPS[swap.setup]}"
    if swap.fault:
        return [work, f"invalid: {swap.fault}", *[NONE] * 6]
    sent = swap.before.sent + swap.during.sent
    failed = sent - swap.before.in_time - swap.during.in_time
    before_ms, during_ms = swap.before.success_p99_ms, swap.during.success_p99_ms
    assert before_ms is not None and during_ms is not None, "else there is a fault"  # noqa: PT018
    times = during_ms / before_ms
    shown = f"{times:.2f} {'≤' if times <= MOST_TIMES else '>'} {MOST_TIMES:g}"
    figures = [f"{before_ms:.1f}", f"{during_ms:.1f}", shown]
    return [work, f"{sent:,}", str(failed), NONE, NONE, *figures]


# ------------------------------------------------------------------ in a row


def _series() -> Series:
    with Mill() as mill:
        version = mill.put()
        mill.start_broker()
        for stage in STAGES:
            mill.stage(stage, "--keep-warm", "0")
        mill.gateway()
        mill.wait_ready()
        mill.wait_stable(version)
        busy_percent = rounds.quiet()
        with mill.load(CLIENTS) as load:
            wait_until(lambda: load.answered > 2000, 30.0, "there is load")
            before_bytes = mill.pss_bytes()
            for _ in range(SWAPS):
                mill.wait_stable(mill.put())
            wait_until(lambda: _is_alone(mill), TAKEN_OVER_S, "the last one is alone")
            after_bytes = mill.pss_bytes()
        too_early = ""
        try:
            mill.check_seen()
        except AssertionError as error:
            too_early = str(error)
        failed = sum(count for kind, count in load.answers.items() if kind != "200")
        failed += len(load.wrong) + len(load.cut) + load.refused
        return Series(
            SWAPS, load.answered, failed, too_early, before_bytes, after_bytes, busy_percent
        )


def _is_alone(mill: Mill) -> bool:
    crews = [role.children() for role in mill.stages.values()]
    return len(mill.workers()) == len(crews) and all(len(crew) == 1 for crew in crews)


# ------------------------------------------------------------------ once


def _swap(setup: str) -> Swap:
    plan = Plan(
        rate_per_s=LOAD * CAPACITY_PER_S,
        seconds=SECONDS,
        deadline_s=DEADLINE_S,
        seed=1,
        warm_up_s=WARM_UP_S,
    )
    with Single() as mill:
        busy_percent = rounds.quiet()
        (before,) = offers.measure(mill.target, [Offer(plan)])
        with ThreadPoolExecutor(1) as beside:
            took = beside.submit(mill.replace, setup)
            (during,) = offers.measure(mill.target, [Offer(plan)])
            return Swap(setup, before, during, took.result(), busy_percent)


class Single(Deployment):
    """One stage, of which version 1 serves."""

    def __init__(self) -> None:
        super().__init__(pipelines='[pipelines.one]\nchain = ["infer"]\n')
        (self.folder / "models").mkdir()

    def __enter__(self) -> Self:
        super().__enter__()
        self.put("1", "sleep 0")
        self.broker()
        self.worker(PLUGIN, "--models", "models", "--stage", "infer", "--keep-warm", "0")
        self.gateway()
        self.wait_ready()
        return self

    @property
    def target(self) -> Target:
        """Where the load goes."""
        url = f"http://127.0.0.1:{self.port}"
        exchange = Exchange("/pipelines/one", b'{"x": 1}', '{"x":1}')
        return Target(url + exchange.path, exchange, Path(), {})

    def put(self, version: str, setup: str) -> None:
        """A version, made elsewhere and moved into place."""
        made = self.folder / f"made-{version}"
        made.mkdir()
        (made / "setup").write_text(setup)
        (made / "READY").touch()
        made.rename(self.folder / "models" / version)

    def replace(self, setup: str) -> float:
        """Put version 2 there, once a load generator that is just started has warmed up; returns
        how long it then took until it had taken over.
        """
        sleep(START_S + WARM_UP_S)
        began = monotonic()
        self.put("2", setup)

        def has_taken_over() -> bool:
            versions = self.status()["pipelines"]["one"]["traffic"]["versions"]
            return [each["version"] for each in versions if each["share"]] == ["2"]

        wait_until(has_taken_over, TAKEN_OVER_S, "version 2 takes over")
        return monotonic() - began


CASE = Swaps()
