"""What it costs to see what goes on: metrics and the default logs, beside a deployment without.

Both stand side by side, and are loaded in turn; the one that is seen is also read, gateway and
broker, each second and a half while it is loaded: several times as often as Prometheus would.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import processes, rounds
from benchmarks.cases import small
from benchmarks.load import Measurement
from benchmarks.peers.server import Exchange, Server, Target, Workload
from benchmarks.rounds import Settings

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
READ_EVERY_S = 1.5

WITHOUT: Mapping[str, str] = {"MILLSTREAM_NO_METRICS": "1", "MILLSTREAM_LOG_LEVEL": "error"}

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
    """A workload, under how much load, and how much of its rate must be left."""

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


def run(millstream: Server, settings: Settings) -> str:
    """Print the figures of each workload; the fault that they have, or ""."""
    faults = [_measure(millstream, part, settings) for part in PARTS]
    return "; ".join(filter(None, faults))


def _measure(millstream: Server, part: Part, settings: Settings) -> str:
    workload = part.workload
    port = processes.free_port()
    seen = replace(workload, broker_options=("--metrics-port", str(port)))
    unseen = replace(workload, variables={**workload.variables, **WITHOUT})
    with millstream.deploy(seen) as one, millstream.deploy(unseen) as other:
        gateway = one.url.removesuffix(one.exchange.path)
        pages = (f"{gateway}/metrics", f"http://127.0.0.1:{port}/metrics")
        (row,) = rounds.measure(
            workload.title,
            {"seen": Seen(one, pages), "unseen": other},
            replace(settings, clients=(part.clients,)),
            {},
        )
    ratio = row.ratio("seen", "unseen")
    if ratio is None:
        return f"{workload.title}: {row.fault('seen') or row.fault('unseen')}"
    rates = [row.median(name).requests_per_s for name in ("seen", "unseen")]
    print(
        f"{workload.title}, {part.clients} clients: {rates[0]:.0f}/s with metrics and logs, "
        f"{rates[1]:.0f}/s without; {ratio:.3f} of the rate is left (floor {part.floor})"
    )
    return "" if ratio >= part.floor else f"{workload.title}: less than {part.floor} is left"
