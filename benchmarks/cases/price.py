"""What it costs to see what goes on: metrics, the log, traces.

Deployments that differ in that alone stand side by side, and are loaded in turn. Those with metrics
are also read, gateway and broker, each second and a half while they are loaded: several times as
often as Prometheus would. Spans go to a collector on the same cores, which forgets them.
"""

import contextlib
import dataclasses
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import collector, machine, processes, rates, rounds
from benchmarks.cases import small
from benchmarks.cases.case import Finding, ours_alone, tell
from benchmarks.load import Measurement
from benchmarks.peers.server import Exchange, Server, Target, Workload
from benchmarks.processes import StartFailed
from benchmarks.report import NO_RATIO, OURS, Section, against
from benchmarks.rounds import Loadable, Row, Settings

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
FLOORS = {TRACED: 0.98}
NOTE = (
    "The same deployment several times: without metrics and silent, as it usually is (metrics read "
    "each 1.5 s, the default log), then also with a trace of one request in a hundred, or with a "
    "line of the log for each. Of each the share of the rate that is left: the usual one's of the "
    "silent one's, the others' of the usual one's."
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
    """A deployment that somebody reads while it is loaded."""

    target: Target
    pages: tuple[str, ...]

    def load(self, *, clients: int, seconds: int) -> Measurement:
        """See `rounds.Loadable`."""
        with _reading(self.pages):
            return self.target.load(clients=clients, seconds=seconds)


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
        rows: list[Row] = []
        failures: dict[str, str] = {}
        for part in PARTS if OURS in servers else ():
            try:
                rows.append(_measure(part, servers[OURS], settings))
            except StartFailed as error:
                failures[OURS] = str(error)
        section = Section(
            title="What it costs to see",
            note=NOTE,
            servers=(OURS,),
            how=f"{settings.rounds} rounds of {settings.seconds} s",
            load=f"wrk {machine.wrk_version()}",
            header=header(),
            lines=lines(rows),
            data=[_as_data(row) for row in rows],
            faults=[fault for row in rows for way in TITLES if (fault := row.fault(way))],
            busy_percent=[look for row in rows for look in row.busy_percent],
        )
        return Finding(section, failures)


def _measure(part: Part, millstream: Server, settings: Settings) -> Row:
    title = part.workload.title
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-bench-")))
        endpoint = stack.enter_context(collector.running(folder))
        targets: dict[str, Loadable] = {}
        for way, shown in TITLES.items():
            tell(f"{title}: starting with {shown} …")
            targets[way] = stack.enter_context(_deployed(part.workload, way, millstream, endpoint))
        tell(f"{title}: measuring …")
        asked = replace(settings, clients=(part.clients,))
        floors = {part.clients: {USUAL: part.floor, **FLOORS}}
        (row,) = rounds.measure(title, targets, asked, floors)
    return row


@contextlib.contextmanager
def _deployed(
    workload: Workload, way: str, millstream: Server, endpoint: str
) -> Iterator[Loadable]:
    if way == NOTHING:
        silent = replace(workload, variables={**workload.variables, **WITHOUT})
        with millstream.deploy(silent) as target:
            yield target
        return
    port = processes.free_port()
    seen = replace(
        workload,
        variables={**workload.variables, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint},
        broker_options=("--metrics-port", str(port)),
        gateway_options=GATEWAY_OPTIONS.get(way, ()),
    )
    with millstream.deploy(seen) as target:
        gateway = target.url.removesuffix(target.exchange.path)
        yield Seen(target, (f"{gateway}/metrics", f"http://127.0.0.1:{port}/metrics"))


def header() -> list[str]:
    """The names of the columns."""
    kept = [f"{TITLES[way]}: left" for way in COMPARED]
    return ["work", "clients", *TITLES.values(), *kept]


def lines(rows: list[Row]) -> list[list[str]]:
    """The cells: the rates, and what each way to look leaves of the rate."""
    return [
        [
            row.workload,
            str(row.clients),
            *[rates.cell(row, way) for way in TITLES],
            *[_left(row, way, other) for way, other in COMPARED.items()],
        ]
        for row in rows
    ]


def _left(row: Row, way: str, other: str) -> str:
    ratio = row.ratio(way, other)
    if ratio is None:
        return NO_RATIO
    floor = row.floors.get(way)
    return f"{ratio:.3f}" if floor is None else against(ratio, floor, digits=3)


def _as_data(row: Row) -> dict[str, object]:
    return {
        "workload": row.workload,
        "clients": row.clients,
        "ratios": {way: row.ratio(way, other) for way, other in COMPARED.items()},
        "floors": dict(row.floors),
        "measurements": {
            way: [dataclasses.asdict(one) for one in taken]
            for way, taken in row.measurements.items()
        },
    }


CASE = Price()
