"""One stage that says which version of it answers; started with --version."""

import os
import time
from pathlib import Path

from millstream import Worker


class Which(Worker):
    """Answers each request with its own version."""

    def setup(self) -> None:
        """Takes as long as it takes the file to come that GATE names, if it names one."""
        gate = os.environ.get("GATE", "")
        while gate and not Path(gate).exists():
            time.sleep(0.01)

    def forward(self, batch: list[object]) -> list[str]:
        return [self.version] * len(batch)
