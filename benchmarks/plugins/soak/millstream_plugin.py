"""The three stages of the soak: every way in which a plug-in may treat a large payload."""

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.plugins.arrays import functions
from millstream import Worker

KEPT_ARRAYS = 4


class Take(Worker):
    """`{"seed": int, "side": int}` to an array that is made here, a body to a view of it."""

    max_batch_size = 32

    def forward(self, batch: list[Any]) -> list[npt.NDArray[Any]]:
        """Make or pass on, by what the item is."""
        return [
            functions.make(item["seed"], item["side"])
            if isinstance(item, dict)
            else np.frombuffer(item, np.uint8)
            for item in batch
        ]


class Turn(Worker):
    """float32 to twice as much, bytes to themselves; keeps some of what it was given a while."""

    max_batch_size = 32

    def setup(self) -> None:
        """Make room for what is kept."""
        self._kept: deque[npt.NDArray[Any]] = deque(maxlen=KEPT_ARRAYS)

    def forward(self, batch: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Transform or pass on, by what the item is."""
        self._kept.append(batch[0])
        return [
            functions.transform(array) if array.dtype == np.float32 else array for array in batch
        ]


class Give(Worker):
    """An array to `{"sum": int, "bytes": int}`; exact, so that one wrong element shows."""

    max_batch_size = 32

    def forward(self, batch: list[npt.NDArray[Any]]) -> list[dict[str, int]]:
        """Sum up each item's array."""
        return [
            {
                "sum": int(array.sum(dtype=np.float64 if array.dtype == np.float32 else np.int64)),
                "bytes": array.nbytes,
            }
            for array in batch
        ]
