"""Answers each request with its own body, a little later: enough work for more than one worker."""

import time
from typing import Any

from millstream import Worker


class Slow(Worker):
    max_batch_size = 2

    def forward(self, batch: list[Any]) -> list[Any]:
        time.sleep(0.005)
        return batch
