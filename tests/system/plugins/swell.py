"""Uploads that become twenty times as large, and a stage behind that stands still on demand."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from millstream import Worker

GATE = Path(os.environ.get("GATE", "/nonexistent"))
TIMES = 20


class Unpack(Worker):
    """Bytes as an array of `TIMES` times their size."""

    stage = "unpack"
    max_batch_size = 16

    def forward(self, batch: list[bytes]) -> list[Any]:
        """uint8 arrays."""
        return [np.repeat(np.frombuffer(body, np.uint8), TIMES) for body in batch]


class Total(Worker):
    """The sum of an array; waits while the file `GATE` is there."""

    stage = "total"
    max_batch_size = 16

    def forward(self, batch: list[Any]) -> list[int]:
        """A sum for each array."""
        while GATE.exists():
            time.sleep(0.02)
        return [int(array.sum(dtype=np.int64)) for array in batch]
