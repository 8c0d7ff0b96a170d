"""The three stages of the workload with arrays, a class each."""

from typing import Any

from benchmarks.plugins.arrays import functions
from benchmarks.plugins.arrays.functions import Array
from millstream import Worker


class Make(Worker):
    """`{"seed": int, "side": int}` to an array."""

    max_batch_size = 32

    def forward(self, batch: list[Any]) -> list[Array]:
        """Make each item's array."""
        return [functions.make(item["seed"], item["side"]) for item in batch]


class Transform(Worker):
    """An array to an array."""

    max_batch_size = 32

    def forward(self, batch: list[Array]) -> list[Array]:
        """Transform each item's array."""
        return [functions.transform(array) for array in batch]


class Total(Worker):
    """An array to `{"sum": float}`."""

    max_batch_size = 32

    def forward(self, batch: list[Array]) -> list[dict[str, float]]:
        """Sum up each item's array."""
        return [{"sum": functions.total(array)} for array in batch]
