"""Cannot be set up, and says why by raising."""

from typing import Any

from millstream import Worker


class Echo(Worker):
    def setup(self) -> None:
        raise OSError("the weights are not where they should be")

    def forward(self, batch: list[Any]) -> list[Any]:
        return batch
