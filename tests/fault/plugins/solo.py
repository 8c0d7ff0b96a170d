"""One stage for one worker: it takes as long as an item says."""

import time
from typing import Any

from millstream import Worker


class Solo(Worker):
    """Sleeps `nap_s`, where an item brings it."""

    stage = "solo"

    def forward(self, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The items as they came."""
        for item in batch:
            time.sleep(item.get("nap_s", 0.0))
        return [{**item, "stages": 1} for item in batch]
