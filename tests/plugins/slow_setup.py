"""Takes for ever to set up."""

import time
from typing import Any

from millstream import Worker


class SlowSetup(Worker):
    def setup(self) -> None:
        time.sleep(600)

    def forward(self, batch: list[Any]) -> list[Any]:
        return batch
