"""Says in which thread its items were decoded, and which threads there are while it runs.

`{"nap": s}` and `{"spin": s}` take that long, `{"until": path}` until there is such a file;
`{"bad": true}` raises, `{"die": true}` ends the process at once.
"""

import os
import threading
import time
from pathlib import Path
from typing import Any

from millstream import Worker


class Threads(Worker):
    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Any]:
        for value in batch:
            if value.get("die"):
                os._exit(9)
            while "until" in value and not Path(value["until"]).exists():
                time.sleep(0.001)
            if value.get("bad"):
                raise ValueError("bad item")
            time.sleep(value.get("nap", 0))
            until = time.monotonic() + value.get("spin", 0)
            while time.monotonic() < until:
                pass
        names = [thread.name for thread in threading.enumerate()]
        slack_ns = int(Path("/proc/self/timerslack_ns").read_text())
        return [{**value, "threads": names, "slack_ns": slack_ns} for value in batch]


class Decoding(Threads):
    stage = "threads"

    def decode(self, body: Any, content_type: str) -> Any:
        return {**super().decode(body, content_type), "thread": threading.current_thread().name}
