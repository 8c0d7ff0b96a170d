"""Adds one to `{"x": n}`: the smallest stage there is, so that the engine around it is measured."""

from typing import Any

from millstream import Worker


class Add(Worker):
    """Serves whichever stage the command line names."""

    max_batch_size = 32

    def forward(self, batch: list[Any]) -> list[Any]:
        """Take and return `{"x": int}` for each item."""
        return [{"x": item["x"] + 1} for item in batch]
