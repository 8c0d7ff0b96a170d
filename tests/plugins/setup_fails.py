"""Cannot be set up."""

from typing import Any

from millstream import Worker


class SetupFails(Worker):
    def setup(self) -> None:
        raise RuntimeError("no weights here")

    def forward(self, batch: list[Any]) -> list[Any]:
        return batch
