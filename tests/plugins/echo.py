"""Returns its input; `{"nap": s}` takes that long, `{"bad": true}` raises, `{"die": true}` dies.
`{"begun": path}` makes that file first.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

from millstream import Worker


class Echo(Worker):
    max_batch_size = 8

    def setup(self) -> None:
        self.example = {"x": 1}

    def forward(self, batch: list[Any]) -> list[Any]:
        for value in batch:
            if isinstance(value, dict):
                if "begun" in value:
                    Path(value["begun"]).touch()
                if value.get("bad"):
                    raise ValueError("bad item")
                if value.get("die"):
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(value.get("nap", 0))
        return batch

    def teardown(self) -> None:
        print("torn down")
