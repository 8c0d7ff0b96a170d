"""After `{"poison": true}` every later call fails, as with a device that has had a fault."""

from typing import Any

from millstream import Worker


class Sticky(Worker):
    poisoned = False

    def setup(self) -> None:
        self.example: dict[str, bool] = {}

    def forward(self, batch: list[Any]) -> list[Any]:
        self.poisoned = self.poisoned or any(value.get("poison") for value in batch)
        if self.poisoned:
            raise RuntimeError("device-side assert triggered")
        return batch
