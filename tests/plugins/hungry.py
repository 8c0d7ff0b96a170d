"""Has 256 MiB: an item's `{"mib": n}` takes so many of them during its batch, `{"leak": n}` for
ever. The example takes 80. What is beyond it the kernel refuses.
"""

import resource
from pathlib import Path
from typing import Any

import numpy as np

from millstream import Worker

ROOM_BYTES = 256 << 20


class Hungry(Worker):
    max_batch_size = 2

    def setup(self) -> None:
        self.leaked: list[np.ndarray[Any, Any]] = []
        self.example = {"mib": 80}
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used_bytes = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used_bytes + ROOM_BYTES, -1))

    def forward(self, batch: list[Any]) -> list[Any]:
        self.leaked += [_taken(item.get("leak", 0)) for item in batch]
        taken = [_taken(item.get("mib", 0)) for item in batch]
        return [int(array[-1]) for array in taken]


class Glutton(Hungry):
    """Without a limit of its own."""

    def setup(self) -> None:
        self.leaked = []


class HungryAsync(Hungry):
    concurrency = 2

    async def forward(self, batch: list[Any]) -> list[Any]:  # type: ignore[override]
        return super().forward(batch)


def _taken(mib: int) -> np.ndarray[Any, Any]:
    return np.ones((mib << 17) + 1)
