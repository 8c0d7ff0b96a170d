"""The toy models of the cases."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millstream import Worker

Array = NDArray[Any]


class Toy(Worker):
    """An item comes back as it came, unless it is an object that asks for something else."""

    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Any]:
        return [self._answer(item, of=len(batch)) for item in batch]

    def _answer(self, item: Any, *, of: int) -> Any:
        match item:
            case {"gate": path}:
                while not Path(path).exists():
                    time.sleep(0.005)
            case {"rows": rows}:
                return {"rows": len(rows), "items": of}
            case {"floats": texts}:
                return np.array([float(text) for text in texts])
            case {"cut": text}:
                return {text: text + "\ud83d"}
        return item


class Stack(Worker):
    """Sums rows, as most models do in some way. What is of another dtype is never converted."""

    max_batch_size = 8

    def decode(self, body: bytes, content_type: str) -> Array:
        return np.array(super().decode(body, content_type))

    def forward(self, batch: list[Array]) -> list[Any]:
        if len(batch) == 1:
            time.sleep(0.03)  # what comes meanwhile is batched
        stacked = np.stack(batch, dtype=batch[0].dtype, casting="no")
        return [[row.sum().item(), str(row.dtype)] for row in stacked]
