"""Both kinds of stage under overload: each adds one to `{"x": n}`."""

from typing import Any

from benchmarks.plugins.overload import functions
from millstream import Worker


class Quick(Worker):
    """Takes no time; serves whichever stage the command line names."""

    max_batch_size = 16

    def forward(self, batch: list[Any]) -> list[Any]:
        """Take and return `{"x": int}` for each item."""
        return [{"x": item["x"] + 1} for item in batch]


class Slow(Quick):
    """Takes a + c·b for a batch of b."""

    def setup(self) -> None:
        """Have the time of a batch measured before the first request."""
        self.example = {"x": 1}

    def forward(self, batch: list[Any]) -> list[Any]:
        """Take and return `{"x": int}` for each item."""
        functions.infer(len(batch))
        return super().forward(batch)
