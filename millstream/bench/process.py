"""One generating process: `python -m millstream.bench.process`, started by `crew.py`.

A load generator that also draws a progress bar would be late for it, so it is a process of its own.
Reads a `Part` and then a `Start` from standard input, a line of JSON each; writes `Ready`,
`Progress` now and then, and at the end a `Done`, or `Failed`. Ends when its standard input does.
"""

import asyncio
import gc
import math
import os
import signal
import sys
import time
from itertools import islice

import msgspec
import uvloop

from millstream.bench.arrivals import moments, until
from millstream.bench.closed_loop import ClosedLoop
from millstream.bench.load import Failed, Load, Part, Progress, Ready, Start
from millstream.bench.open_loop import OpenLoop
from millstream.bench.tally import Counter, Tally

PROGRESS_S = 0.2
GRACE_S = 0.5
"""An open load goes on for so long after what counts, at most: the last of it would else find less
load than the others did."""

_encode = msgspec.json.encode


class Done(msgspec.Struct, frozen=True, tag=True):
    """What this process has counted."""

    tally: Tally


async def _run(part: Part) -> None:
    load = part.load
    begin_s, end_s = load.warm_up_s, load.warm_up_s + load.seconds
    counter = Counter(begin_s=begin_s, end_s=end_s, slo_s=load.slo_s)
    loop = _loop(part, counter, end_s)
    try:
        await loop.open()
    except OSError as error:
        reason = error.strerror or str(error) or "no answer"
        _say(Failed(f"{load.target.url}: {reason}"))
        return
    _say(Ready())
    line = await asyncio.to_thread(sys.stdin.buffer.readline)
    if not line:
        return
    start_s = msgspec.json.decode(line, type=Start).at_s
    running = asyncio.get_running_loop()
    running.add_reader(0, os._exit, 1)  # nothing more is said: whoever started this has gone
    beats = running.create_task(_tell(counter))
    began_s, processor_s = time.monotonic(), time.process_time()
    await loop.run(start_s)
    beats.cancel()
    tally = counter.tally
    share = (time.process_time() - processor_s) / (time.monotonic() - began_s)
    tally.processor_percent = [round(100.0 * share, 1)]
    tally.waited = loop.waited
    tally.connections = loop.connections
    tally.closed_by_server = loop.closed_by_server
    tally.unreadable = loop.unreadable
    _say(Done(tally))


def _loop(part: Part, counter: Counter, end_s: float) -> OpenLoop | ClosedLoop:
    load, parts = part.load, part.load.processes
    if not load.is_open:
        return ClosedLoop(
            load.target,
            counter,
            clients=share(load.clients, part.part, parts),
            end_s=end_s,
            most_requests=share(load.requests, part.part, parts) or sys.maxsize,
            patience_s=load.timeout_s,
        )
    planned = moments(
        load.arrivals,
        rate_per_s=load.rate_per_s,
        seed=load.seed,
        part=part.part,
        parts=parts,
    )
    planned = until(end_s + grace_s(load), planned)
    if load.requests:
        planned = islice(planned, share(load.requests, part.part, parts))
    rate_per_s = load.rate_per_s / parts
    return OpenLoop(
        load.target,
        planned,
        counter,
        rate_per_s=rate_per_s,
        patience_s=load.timeout_s,
        open_ahead=math.ceil(rate_per_s * min(load.slo_s, 0.1)),
        most_connections=share(load.connections, part.part, parts),
    )


def grace_s(load: Load) -> float:
    """How long load goes on after what counts."""
    return min(load.slo_s, GRACE_S)


def share(whole: int, part: int, parts: int) -> int:
    """What one of several parts has of a whole number; together they have it all."""
    return whole // parts + (part < whole % parts)


async def _tell(counter: Counter) -> None:
    while True:
        await asyncio.sleep(PROGRESS_S)
        _say(Progress(counter.begun, counter.ended))


def _say(message: object) -> None:
    sys.stdout.buffer.write(_encode(message) + b"\n")
    sys.stdout.buffer.flush()


def main() -> int:
    """Exit code 0 when it could measure, and when nobody wants to know any longer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which ends this
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    part = msgspec.json.decode(line, type=Part)
    gc.disable()  # a collection would be a pause of its own in what is measured
    uvloop.run(_run(part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
