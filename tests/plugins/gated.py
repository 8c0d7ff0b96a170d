"""Its setup does as the folder in its environment says: fails if `full` is there, and waits as long
as `shut` is.
"""

import os
import time
from pathlib import Path
from typing import Any

from millstream import Worker


class Gated(Worker):
    def setup(self) -> None:
        folder = Path(os.environ["GATE"])
        if (folder / "full").exists():
            raise RuntimeError("CUDA out of memory")
        while (folder / "shut").exists():
            time.sleep(0.01)

    def forward(self, batch: list[Any]) -> list[Any]:
        return batch
