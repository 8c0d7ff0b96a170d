"""Its example is none."""

from typing import Any

from millstream import Worker


class WarmUpFails(Worker):
    def setup(self) -> None:
        self.example = "no number"

    def forward(self, batch: list[Any]) -> list[Any]:
        return [value / 2 for value in batch]
