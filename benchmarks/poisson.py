"""The open load of the benchmarks, a process of its own: `python -m benchmarks.poisson --help`.

Sends requests at the moments of a plan, whatever the server does, by the generator of `millstream
bench`, and prints what became of them as JSON: the figures of `benchmarks.open_loop`, and its own
share of a core. Exits 0 when it could measure, sound or not, 1 when it could not connect, 2 on
wrong usage.
"""

import argparse
import dataclasses
import gc
import json
import math
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from benchmarks import open_loop
from benchmarks.open_loop import Figures, Log, Plan
from millstream.bench.open_loop import OpenLoop
from millstream.bench.target import Target


async def generate(target: Target, plan: Plan) -> Figures:
    """Carry out one plan against one target. Raises OSError where nobody can be connected to."""
    moments = plan.moments()
    log = Log(len(moments))
    loop = OpenLoop(
        target,
        iter(moments),
        log,
        rate_per_s=plan.rate_per_s,
        patience_s=plan.patience_s,
        open_ahead=math.ceil(plan.rate_per_s * plan.deadline_s),
    )
    await loop.open()
    began_s, processor_s = time.monotonic(), time.process_time()
    await loop.run()
    wall_s = time.monotonic() - began_s
    log.processor_percent = round((time.process_time() - processor_s) / wall_s * 100, 1)
    log.waited = loop.waited
    log.connections = loop.connections
    log.closed_by_server = loop.closed_by_server
    log.unreadable = loop.unreadable
    return open_loop.count(plan, moments, log)


def main() -> int:
    """Read the command line, measure and print."""
    arguments = _parser().parse_args()
    target = Target(url=arguments.url, headers=arguments.header, bodies=[arguments.body])
    plan = Plan(
        rate_per_s=arguments.rate,
        seconds=arguments.seconds,
        deadline_s=arguments.deadline_ms / 1e3,
        seed=arguments.seed,
        warm_up_s=arguments.warm_up,
    )
    # A collection would be a pause of its own in what is measured.
    gc.disable()
    try:
        figures = uvloop.run(generate(target, plan))
    except OSError as error:
        print(f"{arguments.url}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(figures), indent=2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.poisson",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", type=_url, required=True, help="http://HOST:PORT/PATH")
    parser.add_argument("--rate", type=_positive, required=True, help="requests a second")
    parser.add_argument("--seconds", type=_positive, default=5.0, help="of what counts (5)")
    parser.add_argument("--warm-up", type=_not_negative, default=1.0, help="seconds before (1)")
    parser.add_argument("--deadline-ms", type=_positive, required=True, help="wanted within this")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    parser.add_argument("--body", type=_body, required=True, metavar="FILE", help="what is posted")
    parser.add_argument(
        "--header", action="append", default=[], type=_header, metavar="'NAME: VALUE'"
    )
    return parser


def _url(text: str) -> str:
    url = urlsplit(text)
    if url.scheme != "http" or not url.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is no http://HOST:PORT/PATH")
    return text


def _header(text: str) -> str:
    name, colon, value = text.partition(":")
    if not (name and colon and text.isprintable()):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME: VALUE")
    return f"{name}: {value.strip()}"


def _body(text: str) -> bytes:
    try:
        return Path(text).read_bytes()
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def _not_negative(text: str) -> float:
    return 0.0 if float(text) == 0 else _positive(text)


if __name__ == "__main__":
    sys.exit(main())
