"""What pages call without showing it: one stage that does for all of these pipelines."""

from typing import Any

from millstream import Worker


class StandIn(Worker):
    stage = "stand-in"
    max_batch_size = 8
    example = b""

    def forward(self, batch: list[Any]) -> list[Any]:
        return [self.answer(item) for item in batch]

    def answer(self, item: Any) -> Any:
        if isinstance(item, bytes):
            return {"digit": 3}
        if isinstance(item, dict):
            return iter(item["prompt"].split())
        return item
