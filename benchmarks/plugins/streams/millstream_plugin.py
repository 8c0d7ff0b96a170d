"""Values at even times, each saying when it was made; ordinary answers beside them."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from millstream import Worker


class Pace(Worker):
    """[count, seconds between two] is answered by a stream, a number by itself."""

    max_batch_size = 64
    max_streams = 4096
    streams = True

    async def forward(self, batch: list[Any]) -> list[Any]:
        """Begin the streams."""
        return [_values(*each) if isinstance(each, list) else each for each in batch]


async def _values(count: int, every_s: float) -> AsyncIterator[float]:
    due = time.monotonic()
    for _ in range(count):
        yield time.monotonic()
        due += every_s
        await asyncio.sleep(due - time.monotonic())
