"""One stage, t(b) = 5 + 0.25·b ms asleep, whose setup takes as long as its version's folder says.

The folder has a file `setup`: `sleep` or `spin`, and for how many seconds.
"""

import time
from typing import Any, ClassVar

from millstream import Worker

A_S, C_S = 0.005, 0.000_25


class Infer(Worker):
    max_batch_size = 16
    example: ClassVar[Any] = {"x": 1}

    def setup(self) -> None:
        how, seconds = (self.model_dir / "setup").read_text().split()
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until:
            if how == "sleep":
                time.sleep(float(seconds))

    def forward(self, batch: list[Any]) -> list[Any]:
        time.sleep(A_S + C_S * len(batch))
        return batch
