"""Says of which version it is; in a second stage, also of which the first one was."""

from typing import Any

from millstream import Worker


class Versioned(Worker):
    stage = "first"
    max_batch_size = 8

    def setup(self) -> None:
        self.example: list[str] = []

    def forward(self, batch: list[Any]) -> list[Any]:
        return [[*value, self.version] for value in batch]


class Second(Versioned):
    stage = "second"
