"""After `{"poison": true}` every later call fails, as with a device that has had a fault."""

from typing import Any

from millstream import Reject, Worker


class Sticky(Worker):
    poisoned = False

    def setup(self) -> None:
        self.example: dict[str, bool] = {}

    def forward(self, batch: list[Any]) -> list[Any]:
        if batch[0].get("reject"):
            raise Reject("not this")
        self.poisoned = self.poisoned or any(value.get("poison") for value in batch)
        if self.poisoned:
            raise RuntimeError("device-side assert triggered")
        return batch


class StickyAsync(Sticky):
    async def forward(self, batch: list[Any]) -> list[Any]:  # type: ignore[override]
        return super().forward(batch)
