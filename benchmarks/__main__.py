"""The command: `python -m benchmarks` compares servers, in all cases or in those that are named.

`memory` and `soak` instead load Millstream alone and watch its memory, `oip` compares its
protocols, `serve` its forms of starting, and `streams` tells how late the values of many streams
are. Exits 0 when all was measured and sound, 1 when something was not, 2 on wrong usage.
"""

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from rich.console import Console

from benchmarks import machine, report
from benchmarks.arguments import comparison_parser, watch_parser
from benchmarks.cases import (
    arrays,
    flood,
    memory,
    oip,
    overload,
    price,
    served,
    small,
    soak,
    streams,
    swaps,
    uploads,
)
from benchmarks.cases.case import Case
from benchmarks.peers.millstream import Millstream
from benchmarks.peers.mosec import Mosec
from benchmarks.peers.served import ServedMillstream
from benchmarks.peers.server import Server, Unavailable
from benchmarks.peers.triton import Triton
from benchmarks.processes import StartFailed
from benchmarks.report import Results
from benchmarks.rounds import Settings

CASES: dict[str, Case] = {
    "small": small.CASE,
    "arrays": arrays.CASE,
    "uploads": uploads.CASE,
    "overload": overload.CASE,
    "flood": flood.CASE,
    "swaps": swaps.CASE,
    "price": price.CASE,
}
# What one name on the command line stands for: a server in each form that is measured.
PEERS: dict[str, Callable[[], list[Server]]] = {
    "mosec": lambda: [Mosec(), Mosec("numbin")],
    "triton": lambda: [Triton(), Triton(tuned=True)],
}
# As wide as the table needs, where the output is no terminal.
TABLE_WIDTH = 190


def main() -> int:
    """Read the command line and run."""
    signal.signal(signal.SIGTERM, _interrupt)
    watch = WATCHES.get(sys.argv[1]) if len(sys.argv) > 1 else None
    arguments = watch_parser(sys.argv[1]).parse_args(sys.argv[2:]) if watch else _comparison()
    needs_wrk = (
        watch in (_memory, _oip, _serve)
        if watch
        else any(case.needs_wrk for case in _cases(arguments))
    )
    if needs_wrk and shutil.which("wrk") is None:
        print("wrk is not installed (on Debian: apt-get install wrk)", file=sys.stderr)
        return 2
    try:
        return watch(arguments) if watch else _compare(arguments)
    except (Unavailable, StartFailed) as error:
        print(f"Millstream: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _comparison() -> argparse.Namespace:
    parser = comparison_parser(__doc__, cases=CASES, peers=PEERS, watches=WATCHES)
    return parser.parse_intermixed_args()


def _cases(arguments: argparse.Namespace) -> list[Case]:
    return [CASES[name] for name in dict.fromkeys(arguments.cases or arguments.only)]


def _compare(arguments: argparse.Namespace) -> int:
    rounds, seconds = (2, 1) if arguments.quick else (arguments.rounds, arguments.seconds)
    settings = Settings(rounds, seconds, arguments.clients, arguments.seeds)
    cases = _cases(arguments)
    taking_part = [Millstream(), *[each for name in arguments.peers for each in PEERS[name]()]]
    servers: dict[str, Server] = {
        server.name: server
        for server in taking_part
        if any(case.takes(server.name) for case in cases)
    }
    results = Results(
        machine=machine.describe(),
        settings=settings,
        titles={name: server.title for name, server in servers.items()},
        versions={},
    )
    for name, server in list(servers.items()):
        try:
            results.versions[name] = server.prepare()
        except Unavailable as error:
            results.failures[name] = str(error)
            del servers[name]
    for case in cases:
        section, failures = case.run(servers, results.titles, settings)
        results.sections.append(section)
        results.failures.update(failures)
    _publish(results, arguments)
    return 0 if results.sound else 1


def _publish(results: Results, arguments: argparse.Namespace) -> None:
    report.write(arguments.json, json.dumps(report.as_data(results), indent=2) + "\n")
    if arguments.markdown is not None:
        _write_page(results, arguments.markdown)
    console = Console() if sys.stdout.isatty() else Console(width=TABLE_WIDTH)
    for section in results.sections:
        console.print(report.table(section))
        for said in report.provenance(results, section):
            console.print(said, highlight=False, markup=False)
    for server, why in results.failures.items():
        print(f"\n{results.titles[server]}: {why}", file=sys.stderr)


def _write_page(results: Results, path: Path) -> None:
    """The sections that were not measured now stay on the page as they are."""
    page = path.read_text() if path.exists() else ""
    report.write(path, report.markdown(results, page))
    for section in results.sections:
        if section.picture:
            report.write(path.with_name(section.picture.name), section.picture.svg)


def _memory(arguments: argparse.Namespace) -> int:
    samples, fault = memory.run(_prepared(), requests=arguments.requests)
    report.write(arguments.json, json.dumps(memory.as_json(samples, fault), indent=2) + "\n")
    print(fault or "the broker's memory is small and flat")
    return 1 if fault else 0


def _soak(arguments: argparse.Namespace) -> int:
    samples, fault = soak.run(_prepared(), requests=arguments.requests)
    report.write(arguments.json, json.dumps(soak.as_json(samples, fault), indent=2) + "\n")
    print(fault or "memory is flat, and every answer was right")
    return 1 if fault else 0


def _oip(arguments: argparse.Namespace) -> int:
    fault = oip.run(
        _prepared(),
        clients=arguments.clients,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
    )
    print(fault or "the protocol keeps up")
    return 1 if fault else 0


def _streams(arguments: argparse.Namespace) -> int:
    fault = streams.run(_prepared(), streams=arguments.streams, seconds=arguments.seconds)
    print(fault or "values are in time")
    return 1 if fault else 0


def _serve(arguments: argparse.Namespace) -> int:
    fault = served.run(
        _prepared(),
        ServedMillstream(),
        clients=arguments.clients,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
    )
    print(fault or "one file is as fast")
    return 1 if fault else 0


def _prepared() -> Server:
    millstream = Millstream()
    millstream.prepare()
    return millstream


WATCHES: dict[str, Callable[[argparse.Namespace], int]] = {
    "memory": _memory,
    "oip": _oip,
    "serve": _serve,
    "soak": _soak,
    "streams": _streams,
}


if __name__ == "__main__":
    sys.exit(main())
