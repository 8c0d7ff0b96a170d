"""A first stage that does as its input says, and a second one that counts what it sees."""

import os
import signal
import time
from typing import Any

from millstream import Reject, Worker


class Moody(Worker):
    """`{"do": …}`: raise, reject, sleep, die."""

    max_batch_size = 16

    def forward(self, batch: list[Any]) -> list[Any]:
        return [_done(item) for item in batch]


def _done(item: Any) -> Any:
    match item.get("do"):
        case "raise":
            return RuntimeError("as it was told")
        case "reject":
            return Reject("as it was told", status=422)
        case "sleep":
            time.sleep(item["s"])
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
    return item


class Count(Worker):
    """Counts in metrics of its own what comes through."""

    max_batch_size = 16

    def setup(self) -> None:
        self.seen = self.metrics.counter("seen", "Items seen.", labels=["parity"])
        self.sizes = self.metrics.histogram("batch", "Batches.", buckets=[1, 4, 16])
        self.last = self.metrics.gauge("last_number", "The latest.", across="max")

    def forward(self, batch: list[Any]) -> list[Any]:
        self.sizes.observe(len(batch))
        for item in batch:
            number = item["n"]
            self.seen.inc(parity="odd" if number % 2 else "even")
            self.last.set(number)
        return batch
