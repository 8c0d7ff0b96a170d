"""The MOSEC service under overload, with one stage or with three, as `BENCHMARK_STAGES` says.

Run by the Python of MOSEC's own virtual environment.
"""

import os
from typing import Any

from mosec import Server, Worker

from benchmarks.plugins.overload import functions


class Quick(Worker):  # type: ignore[misc]  # mosec is not installed where types are checked
    """Add one to `{"x": n}`, with the codecs that MOSEC has by default."""

    def forward(self, data: list[Any]) -> list[Any]:
        """Take and return `{"x": int}` for each item."""
        return [{"x": item["x"] + 1} for item in data]


class Slow(Quick):
    """The same, and take a + c·b for a batch of b."""

    def forward(self, data: list[Any]) -> list[Any]:
        """Take and return `{"x": int}` for each item."""
        functions.infer(len(data))
        return super().forward(data)


CHAINS = {"1": (Slow,), "3": (Quick, Slow, Quick)}


if __name__ == "__main__":
    server = Server()
    for stage in CHAINS[os.environ["BENCHMARK_STAGES"]]:
        server.append_worker(stage, num=1, max_batch_size=16, max_wait_time=1)
    server.run()
