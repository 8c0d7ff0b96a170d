"""Three stages with arrays of 602 KB between them, which notice when one is not what it was.

They sleep for some milliseconds, so that whoever is killed was nearly always at something, while
clients that never pause leave most of the processor free.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millstream import Worker

Array = NDArray[np.float32]

NAP_S = 0.01
SWOLLEN_BYTES = 200_000
SHAPE = (3, 224, 224)
PATTERN = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


def check(array: Array, number: int, factor: int) -> None:
    """RuntimeError unless it is what belongs to this number."""
    if not np.array_equal(array, (PATTERN + number) * np.float32(factor)):
        raise RuntimeError(f"the array of {number} is another one")


class Make(Worker):
    """{"n": number} or an upload, whose length is the number, becomes an array."""

    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Array]:
        time.sleep(NAP_S)
        numbers = [item["n"] if isinstance(item, dict) else len(item) for item in batch]
        return [PATTERN + np.float32(number) for number in numbers]


class Double(Worker):
    """Writes into shared memory itself, and keeps what it was given until the next batch."""

    max_batch_size = 8

    def setup(self) -> None:
        self.kept: list[Array] = []

    def forward(self, batch: list[Array]) -> list[Array]:
        time.sleep(NAP_S)
        for array in self.kept:
            check(array, round(float(array[0, 0, 0])), 1)
        self.kept = batch[:1]
        results = []
        for array in batch:
            result = self.empty(array.shape, array.dtype)
            np.multiply(array, np.float32(2), out=result)
            results.append(result)
        return results


class Count(Worker):
    """The number that the array was made of, if the whole of it is right."""

    max_batch_size = 8

    def forward(self, batch: list[Array]) -> list[dict[str, int]]:
        time.sleep(NAP_S)
        numbers = [round(float(array[0, 0, 0])) // 2 for array in batch]
        for array, number in zip(batch, numbers, strict=True):
            check(array, number, 2)
        return [{"n": number, "stages": 3} for number in numbers]


class Swell(Worker):
    """An answer that is large, and tells its number."""

    max_batch_size = 8

    def forward(self, batch: list[dict[str, int]]) -> list[bytes]:
        time.sleep(NAP_S)
        return [bytes([item["n"] % 251]) * (SWOLLEN_BYTES + item["n"] % 7) for item in batch]
