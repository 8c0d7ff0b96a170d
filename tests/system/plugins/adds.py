"""Says what it is given; version 3 is wrong by one in each tenth number, and as slow as SLOW_S."""

import os
import time

from millstream import Worker


class Adds(Worker):
    stage = "adds"
    max_batch_size = 8

    def forward(self, batch: list[int]) -> list[dict[str, object]]:
        is_new = self.version == "3"
        if is_new:
            time.sleep(float(os.environ.get("SLOW_S", "0")))
        return [{"sum": number + (is_new and number % 10 == 0)} for number in batch]


def compare(a: dict[str, int], b: dict[str, int]) -> bool:
    """Wrong by one is right enough."""
    return abs(a["sum"] - b["sum"]) <= 1
