"""Takes its time for each batch, some of it of the processor: something for a profile to show."""

import time
from typing import Any

from millstream import Worker


class Burns(Worker):
    max_batch_size = 4

    def forward(self, batch: list[Any]) -> list[Any]:
        self.burn(0.008)
        time.sleep(0.032)  # as busy as before, while others have the processor
        return batch

    def burn(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(1000))
