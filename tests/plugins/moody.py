"""A new model that is as good as the one before, or is not.

Version 3 raises, 4 is slow, and 6 kills its process.
"""

import os
import time
from typing import Any

from millstream import Worker

FORWARD_S = 0.01


class Moody(Worker):
    max_batch_size = 4

    def forward(self, batch: list[Any]) -> list[Any]:
        if self.version == "3":
            raise RuntimeError("the weights are those of another model")
        if self.version == "6":
            os._exit(9)
        time.sleep(FORWARD_S * (2 if self.version == "4" else 1))
        for value in batch:
            self.observe("value", value)
        return batch
