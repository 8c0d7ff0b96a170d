"""Several batches in flight: each sleeps, and answers with how many there were beside it."""

import asyncio
from typing import Any

from millstream import Worker


class SlowAsync(Worker):
    stage = "slow"
    concurrency = 3

    async def setup(self) -> None:
        self.running = 0
        self.gate = asyncio.Event()

    async def forward(self, batch: list[Any]) -> list[Any]:
        self.running += 1
        if self.running == self.concurrency or batch[0] == "open":
            self.gate.set()
        await self.gate.wait()
        return [self.running for _ in batch]

    async def teardown(self) -> None:
        print("torn down")
