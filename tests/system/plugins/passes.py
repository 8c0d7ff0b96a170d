"""Two stages: the first dies once where it is told to, the last tells the trace it was given."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from millstream import RequestInfo, Worker


class First(Worker):
    """`{"die": FILE}` kills the first worker that runs it; `{"slow": S}` takes its time."""

    max_batch_size = 8

    def forward(self, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the items as they are."""
        for item in batch:
            if "die" in item and not Path(item["die"]).exists():
                Path(item["die"]).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(item.get("slow", 0.0))
        return batch


class Last(Worker):
    """Answers with the trace context of the request."""

    max_batch_size = 8

    def forward(self, batch: list[Any], requests: list[RequestInfo]) -> list[list[str]]:
        """Return `traceparent` and `tracestate`."""
        return [[request.traceparent, request.tracestate] for request in requests]
