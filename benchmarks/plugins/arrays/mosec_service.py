"""The MOSEC service for the workload with arrays; `BENCHMARK_CODEC` says what they travel in.

Run by the Python of MOSEC's own virtual environment.
"""

import os
from typing import Any

from mosec import Server, Worker
from mosec.mixin import NumBinIPCMixin

from benchmarks.plugins.arrays import functions
from benchmarks.plugins.arrays.functions import Array


class Make(Worker):  # type: ignore[misc]  # mosec is not installed where types are checked
    """`{"seed": int, "side": int}` to an array."""

    def forward(self, data: list[Any]) -> list[Array]:
        """Make each item's array."""
        return [functions.make(item["seed"], item["side"]) for item in data]


class Transform(Worker):  # type: ignore[misc]
    """An array to an array."""

    def forward(self, data: list[Array]) -> list[Array]:
        """Transform each item's array."""
        return [functions.transform(array) for array in data]


class Total(Worker):  # type: ignore[misc]
    """An array to `{"sum": float}`."""

    def forward(self, data: list[Array]) -> list[dict[str, float]]:
        """Sum up each item's array."""
        return [{"sum": functions.total(array)} for array in data]


class NumBinMake(NumBinIPCMixin, Make):  # type: ignore[misc]
    """The same, written by numbin."""


class NumBinTransform(NumBinIPCMixin, Transform):  # type: ignore[misc]
    """The same, read and written by numbin."""


class NumBinTotal(NumBinIPCMixin, Total):  # type: ignore[misc]
    """The same, read by numbin."""


STAGES = {
    "pickle": (Make, Transform, Total),
    "numbin": (NumBinMake, NumBinTransform, NumBinTotal),
}


if __name__ == "__main__":
    server = Server()
    for stage in STAGES[os.environ["BENCHMARK_CODEC"]]:
        server.append_worker(stage, num=1, max_batch_size=32, max_wait_time=1)
    server.run()
