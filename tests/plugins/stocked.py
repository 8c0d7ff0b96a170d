"""Answers with its version and what its model's folder says. The file `how` there may also say that
setup raises, or dies; setup waits as long as the folder in its environment has `shut-VERSION`.
"""

import os
import time
from pathlib import Path
from typing import Any

from millstream import Worker


class Stocked(Worker):
    def setup(self) -> None:
        self.how = (self.model_dir / "how").read_text()
        if self.how == "raise":
            raise RuntimeError(f"version {self.version} has no weights")
        if self.how == "die":
            os._exit(7)
        while Path(os.environ.get("GATE", "/nowhere"), f"shut-{self.version}").exists():
            time.sleep(0.01)

    def forward(self, batch: list[Any]) -> list[Any]:
        return [[self.version, self.model_dir.name, self.how]] * len(batch)
