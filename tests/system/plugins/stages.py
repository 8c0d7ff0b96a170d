"""Three stages in one script: numbers become an array, grow, and are summed up."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millstream import RequestInfo, Worker

Array = NDArray[np.float64]


class ToArray(Worker):
    stage = "to_array"
    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Array]:
        return [np.asarray(numbers, np.float64) for numbers in batch]


class Grow(Worker):
    """Adds the version's number to each element; -1 among them waits for the file GATE."""

    max_batch_size = 8

    def forward(self, batch: list[Array]) -> list[Array]:
        while min(array.min() for array in batch) == -1 and not Path(os.environ["GATE"]).exists():
            time.sleep(0.01)
        return [array + int(self.version or 0) for array in batch]


class Total(Worker):
    max_batch_size = 8

    def forward(self, batch: list[Array], requests: list[RequestInfo]) -> list[Any]:
        return [
            {
                "sum": array.sum(),
                "id": request.request_id,
                "tenant": request.headers.get("x-tenant"),
            }
            for array, request in zip(batch, requests, strict=True)
        ]
