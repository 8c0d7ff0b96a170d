"""The three functions alone: no server, one process, one core.

usage: python -m benchmarks.plugins.arrays.bare SIDE BATCH_SIZE SECONDS
Prints what it found as JSON, in the terms of `benchmarks.load.Measurement`; the times are those of
a whole batch. At least one batch is run.
"""

import json
import statistics
import sys
import time

from benchmarks.plugins.arrays import functions

SEED = 1


def main() -> None:
    """Run batch after batch, and print."""
    side, batch_size, seconds = map(int, sys.argv[1:])
    items = [(SEED, side)] * batch_size
    functions.run(items)
    took_s: list[float] = []
    began = now = time.perf_counter()
    while not took_s or now - began < seconds:
        functions.run(items)
        before, now = now, time.perf_counter()
        took_s.append(now - before)
    requests = len(took_s) * batch_size
    found = {
        "requests": requests,
        "requests_per_s": requests / (now - began),
        "p50_ms": statistics.median(took_s) * 1e3,
        "p99_ms": sorted(took_s)[len(took_s) * 99 // 100] * 1e3,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
