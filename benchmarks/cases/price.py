"""What it costs to see what goes on: metrics, the log, traces.

Deployments that differ in that alone stand side by side, and are loaded in turn. Those with metrics
are also read, gateway and broker, each second and a half while they are loaded: several times as
often as Prometheus would.

Spans go to a collector on the same cores, which forgets them: a few requests a second, and less
than a hundredth of what is measured. The exporter sends each second, and not each five (or when it
has 512, which at these rates is each two to four), so that most of its work falls into the
measurement of its own deployment; a message to the collector costs as much as fifty traces.
"""

import contextlib
import dataclasses
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from benchmarks import burnt, collector, machine, pairs, processes, rates, resident
from benchmarks.cases import small
from benchmarks.cases.case import Finding, ours_alone, tell
from benchmarks.estimate import Estimate
from benchmarks.load import Measurement
from benchmarks.pairs import Figure, Pairs, Watched
from benchmarks.peers.server import Exchange, Server, Target, Workload
from benchmarks.processes import StartFailed
from benchmarks.report import NO_RATIO, OURS, Section, against
from benchmarks.rounds import Row, Settings

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
READ_EVERY_S = 1.5

NOTHING, USUAL, TRACED, ACCESS = "nothing", "usual", "traced", "access"
TITLES = {
    NOTHING: "nothing",
    USUAL: "metrics, logs",
    TRACED: "and traces of 1 %",
    ACCESS: "and access log",
}
WITHOUT: Mapping[str, str] = {"MILLSTREAM_NO_METRICS": "1", "MILLSTREAM_LOG_LEVEL": "error"}
GATEWAY_OPTIONS = {TRACED: ("--trace-sample", "0.01"), ACCESS: ("--access-log",)}
COMPARED = {USUAL: NOTHING, TRACED: USUAL, ACCESS: USUAL}
"""Whose rate is put over whose."""
ROUND = {NOTHING: 1, TRACED: 2, ACCESS: 1}
"""How many pairs with the usual one belong to a round: the least price is asked for the most
exactly."""
FLOORS = {TRACED: 0.98}
STARTS = 3
"""One deployment differs from its like by two or three percent for as long as it lives: so all are
started anew so often."""
TRACES = {"OTEL_BSP_SCHEDULE_DELAY": "1000"}
NOTE = (
    "The same deployment several times: without metrics and silent, as it usually is (metrics read "
    "each 1.5 s, the default log), then also with a trace of one request in a hundred, or with a "
    "line of the log for each. Of each the share of the rate that is left: the usual one's of the "
    "silent one's, the others' of the usual one's; in brackets what it lies between with 95 % "
    "confidence (Hodges and Lehmann). They are measured in pairs next to each other, whose "
    "order is drawn, and all are started anew three times. The second line of each work is the "
    "processor time that all processes of the deployment took for a request, and what is left by "
    "that measure; wrk, which takes about a third of the processors, and the collector are no part "
    "of it."
)

DIGITS = Workload(
    title="digits",
    folder=EXAMPLES / "digits",
    pipeline="digits",
    file="pipeline.toml",
    chain=("preprocess", "infer", "postprocess"),
    scripts={stage: f"{stage}.py" for stage in ("preprocess", "infer", "postprocess")},
    exchanges={
        "millstream": Exchange(
            "/pipelines/digits",
            (EXAMPLES / "digits" / "samples" / "3.png").read_bytes(),
            '"digit":3',
            {"Content-Type": "image/png"},
        )
    },
)


@dataclass(frozen=True, slots=True)
class Part:
    """A workload, under how much load, and how much metrics and the log must leave of its rate."""

    workload: Workload
    clients: int
    floor: float


PARTS = (Part(DIGITS, 16, 0.95), Part(replace(small.ONE_STAGE, title="tiny JSON"), 64, 0.85))


@dataclass(frozen=True, slots=True)
class Seen:
    """A deployment that somebody reads while it is loaded; nobody does without `pages`."""

    target: Target
    pids: tuple[int, ...]
    pages: tuple[str, ...] = ()

    def load(self, *, clients: int, seconds: int) -> Measurement:
        """See `pairs.Watched`."""
        with _reading(self.pages):
            return self.target.load(clients=clients, seconds=seconds)

    def processor_s(self) -> float:
        """See `pairs.Watched`."""
        return burnt.processor_s(self.pids)


@contextlib.contextmanager
def _reading(pages: tuple[str, ...]) -> Iterator[None]:
    enough = threading.Event()

    def read() -> None:
        while not enough.wait(READ_EVERY_S):
            for page in pages:
                processes.fetch(page)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        enough.set()
        reader.join()


class Price:
    """The case."""

    needs_wrk = True

    takes = staticmethod(ours_alone)

    def run(
        self, servers: Mapping[str, Server], titles: Mapping[str, str], settings: Settings
    ) -> Finding:
        """Measure each workload, seen and unseen in turn."""
        rows: list[Pairs] = []
        failures: dict[str, str] = {}
        for part in PARTS if OURS in servers else ():
            try:
                rows.append(_measure(part, servers[OURS], settings))
            except StartFailed as error:
                failures[OURS] = str(error)
        many = settings.rounds * sum(ROUND.values())
        for_traces = settings.rounds * ROUND[TRACED]
        section = Section(
            title="What it costs to see",
            note=NOTE,
            servers=(OURS,),
            how=f"{many} pairs of {settings.seconds} s, {for_traces} for traces",
            load=f"wrk {machine.wrk_version()}",
            header=header(),
            lines=[cells for row in rows for cells in lines(row, _floors(row))],
            data=[_as_data(row) for row in rows],
            faults=[fault for row in rows for way in TITLES if (fault := row.fault(way))],
            busy_percent=[look for row in rows for look in row.busy_percent],
        )
        return Finding(section, failures)


def _floors(row: Pairs) -> dict[str, float]:
    floors = {part.workload.title: part.floor for part in PARTS}
    return {USUAL: floors[row.workload], **FLOORS}


def _measure(part: Part, millstream: Server, settings: Settings) -> Pairs:
    shares = [len(range(start, settings.rounds, STARTS)) for start in range(STARTS)]
    return pairs.joined(
        [
            _measure_some(part, millstream, replace(settings, rounds=share))
            for share in shares
            if share
        ]
    )


def _measure_some(part: Part, millstream: Server, settings: Settings) -> Pairs:
    title = part.workload.title
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-bench-")))
        endpoint = stack.enter_context(collector.running(folder))
        targets: dict[str, Watched] = {}
        for way, shown in TITLES.items():
            tell(f"{title}: starting with {shown} …")
            targets[way] = stack.enter_context(_deployed(part.workload, way, millstream, endpoint))
        tell(f"{title}: measuring …")
        asked = replace(settings, clients=(part.clients,))
        return pairs.measure(title, targets, USUAL, ROUND, asked, random=Random())


@contextlib.contextmanager
def _deployed(workload: Workload, way: str, millstream: Server, endpoint: str) -> Iterator[Seen]:
    if way == NOTHING:
        silent = replace(workload, variables={**workload.variables, **WITHOUT})
        with millstream.deploy(silent) as target:
            yield Seen(target, _pids(target))
        return
    port = processes.free_port()
    seen = replace(
        workload,
        variables={**workload.variables, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **TRACES},
        broker_options=("--metrics-port", str(port)),
        gateway_options=GATEWAY_OPTIONS.get(way, ()),
    )
    with millstream.deploy(seen) as target:
        gateway = target.url.removesuffix(target.exchange.path)
        pages = (f"{gateway}/metrics", f"http://127.0.0.1:{port}/metrics")
        yield Seen(target, _pids(target), pages)


def _pids(target: Target) -> tuple[int, ...]:
    return tuple(resident.family(target.pids).values())


def header() -> list[str]:
    """The names of the columns."""
    kept = [f"{TITLES[way]}: left" for way in COMPARED]
    return ["work", "clients", *TITLES.values(), *kept]


def lines(row: Pairs, floors: Mapping[str, float]) -> list[list[str]]:
    """The cells: the rates, and what each way to look leaves of the rate; then the same of the
    processor time of a request.
    """
    cells = [[row.workload, str(row.clients)], [f"{row.workload}, µs", str(row.clients)]]
    for way in TITLES:
        found = [one.found for one in row.samples(way)]
        cells[0].append(rates.cell(Row(row.workload, row.clients, {way: found}), way))
        used_us = NO_RATIO if row.fault(way) else f"{row.median(way, pairs.request_us):.1f}"
        cells[1].append(used_us)
    for way in COMPARED:
        cells[0].append(_cell(left(row, way, pairs.rate), floors.get(way)))
        cells[1].append(_cell(left(row, way, pairs.request_us), None))
    return cells


def left(row: Pairs, way: str, figure: Figure) -> Estimate | None:
    """What this way to look leaves of the rate; None where a measurement is bad."""
    # The usual one is not compared with the silent one, but the other way round.
    share = row.share(NOTHING if way == USUAL else way, figure)
    if share is None:
        return None
    is_rate = figure is pairs.rate
    return share.inverse() if is_rate == (way == USUAL) else share


def _cell(found: Estimate | None, floor: float | None) -> str:
    if found is None:
        return NO_RATIO
    interval = f"({found.low:.3f}, {found.high:.3f})"
    if floor is None:
        return f"{found.value:.3f} {interval}"
    return f"{against(found.value, floor, digits=3)} {interval}"


def _as_data(row: Pairs) -> dict[str, object]:
    return {
        "workload": row.workload,
        "clients": row.clients,
        "left": {way: left(row, way, pairs.rate) for way in COMPARED},
        "left_of_processor": {way: left(row, way, pairs.request_us) for way in COMPARED},
        "floors": _floors(row),
        "pairs": {
            way: [[dataclasses.asdict(one) for one in pair] for pair in found]
            for way, found in row.found.items()
        },
    }


CASE = Price()
