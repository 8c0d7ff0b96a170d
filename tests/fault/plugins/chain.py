"""Three stages that do next to nothing, and a few bad things when an item asks for it."""

import ctypes
import os
import signal
import time
from typing import Any

from millstream import Worker


class Stage(Worker):
    """Counts the stages that an item has passed. `do` names a misdeed, `at` the stage for it."""

    stage = "any"
    nap_s = 0.002
    max_batch_size = 16

    def forward(self, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Each item, one stage further."""
        time.sleep(self.nap_s)
        for item in batch:
            if item.get("at") == self.stage:
                self._misbehave(item["do"])
        return [{**item, "stages": item.get("stages", 0) + 1} for item in batch]

    def _misbehave(self, how: str) -> None:
        if how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "segfault":
            ctypes.string_at(0)
        elif how == "hang":
            time.sleep(60.0)


class First(Stage):
    """Quick."""

    stage = "first"


class Second(Stage):
    """Slower, in larger batches."""

    stage = "second"
    nap_s = 0.004
    max_batch_size = 32


class Third(Stage):
    """The quickest."""

    stage = "third"
    nap_s = 0.001
