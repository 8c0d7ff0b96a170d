"""Two stages that say which version of each of them has answered, and whether it was warm by then.

The folder of a version has a file `weights`. Its first line is how setup goes: `fine`, `raise`, or
`sleep 1.0` or `spin 1.0` seconds; its last line is `end`, as a whole file has it.
"""

import os
import time
from typing import Any, ClassVar

from millstream import Worker


class Prepare(Worker):
    max_batch_size = 32
    example: ClassVar[Any] = {"n": 0, "said": []}

    def setup(self) -> None:
        lines = (self.model_dir / "weights").read_text().splitlines()
        if lines[-1:] != ["end"]:
            raise RuntimeError(f"version {self.version} is cut short")
        how, _, seconds = lines[0].partition(" ")
        if how == "raise":
            raise RuntimeError(f"version {self.version} has no weights")
        if how == "sleep":
            time.sleep(float(seconds))
        until = time.monotonic() + float(seconds or 0)
        while how == "spin" and time.monotonic() < until:
            pass
        self.is_warm = False

    def forward(self, batch: list[Any]) -> list[Any]:
        was_warm, self.is_warm = self.is_warm, True
        mine = [self.version, self.model_dir.name, os.getpid(), was_warm]
        return [{"n": each["n"], "said": [*each["said"], mine]} for each in batch]


class Infer(Prepare):
    pass
