"""The command: `python -m benchmarks` compares servers, `python -m benchmarks memory` soaks one.

Exits 0 when all was measured and sound, 1 when something was not, 2 on wrong usage.
"""

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from rich.console import Console

from benchmarks import machine, report
from benchmarks.cases import memory, small
from benchmarks.peers.millstream import Millstream
from benchmarks.peers.mosec import Mosec
from benchmarks.peers.server import Server, Unavailable
from benchmarks.peers.triton import Triton
from benchmarks.processes import StartFailed
from benchmarks.report import Results
from benchmarks.rounds import Row, Settings

Case = Callable[[Mapping[str, Server], Settings], tuple[list[Row], dict[str, str]]]

CASES: dict[str, Case] = {"small": small.run}
PEERS: dict[str, Callable[[], Server]] = {"mosec": Mosec, "triton": Triton}
MARKDOWN = Path("benchmarks/RESULTS.md")
# As wide as the table needs, where the output is no terminal.
TABLE_WIDTH = 140


def main() -> int:
    """Read the command line and run."""
    arguments = _parser().parse_args()
    if shutil.which("wrk") is None:
        print("wrk is not installed (on Debian: apt-get install wrk)", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _memory(arguments) if arguments.mode == "memory" else _compare(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=_count, default=5, help="rounds for each row (5)")
    parser.add_argument("--seconds", type=_count, default=2, help="length of a measurement (2)")
    parser.add_argument(
        "--clients",
        type=_counts,
        default=(1, 16, 64, 256),
        help="connections, a row each (1,16,64,256)",
    )
    parser.add_argument("--peers", type=_names(PEERS), default=tuple(PEERS), help="(mosec,triton)")
    parser.add_argument("--only", type=_names(CASES), default=tuple(CASES), help="cases (small)")
    parser.add_argument("--quick", action="store_true", help="two rounds of a second: a glance")
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"), metavar="OUT")
    parser.add_argument(
        "--markdown",
        type=Path,
        nargs="?",
        const=MARKDOWN,
        metavar="OUT",
        help=f"also write a Markdown page ({MARKDOWN})",
    )
    modes = parser.add_subparsers(dest="mode", metavar="memory")
    soak = modes.add_parser("memory", help="send many requests and watch the broker's memory")
    soak.add_argument("--requests", type=_count, default=1_000_000, help="how many (1000000)")
    soak.add_argument("--json", type=Path, default=Path("build/memory.json"), metavar="OUT")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _names(known: Mapping[str, object]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(name for name in text.split(",") if name)
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return names

    return parse


def _compare(arguments: argparse.Namespace) -> int:
    settings = Settings(arguments.rounds, arguments.seconds, arguments.clients)
    if arguments.quick:
        settings = Settings(2, 1, arguments.clients)
    servers: dict[str, Server] = {"millstream": Millstream()}
    servers |= {name: PEERS[name]() for name in arguments.peers}
    results = Results(
        machine=machine.describe(),
        settings=settings,
        titles={name: server.title for name, server in servers.items()},
        versions={},
        failures={},
        rows=[],
    )
    for name, server in list(servers.items()):
        try:
            results.versions[name] = server.prepare()
        except Unavailable as error:
            results.failures[name] = str(error)
            del servers[name]
    for case in arguments.only:
        rows, failures = CASES[case](servers, settings)
        results.rows.extend(rows)
        results.failures.update(failures)
    _publish(results, arguments)
    return 0 if results.sound else 1


def _publish(results: Results, arguments: argparse.Namespace) -> None:
    report.write(arguments.json, json.dumps(report.as_data(results), indent=2) + "\n")
    if arguments.markdown is not None:
        report.write(arguments.markdown, report.markdown(results))
    console = Console() if sys.stdout.isatty() else Console(width=TABLE_WIDTH)
    console.print(report.table(results))
    for said in report.summary(results):
        console.print(said, highlight=False, markup=False)
    for server, why in results.failures.items():
        print(f"\n{results.titles[server]}: {why}", file=sys.stderr)


def _memory(arguments: argparse.Namespace) -> int:
    millstream = Millstream()
    try:
        millstream.prepare()
        samples, fault = memory.run(millstream, requests=arguments.requests)
    except (Unavailable, StartFailed) as error:
        print(f"Millstream: {error}", file=sys.stderr)
        return 1
    report.write(arguments.json, json.dumps(memory.as_json(samples, fault), indent=2) + "\n")
    print(fault or "the broker's memory is small and flat")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
