"""Two stages: the first dies once where it is told to, the last tells the trace it was given."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from millstream import RequestInfo, Tensor, Worker


class First(Worker):
    """A command is JSON: `{"die": FILE}` kills the first worker that runs it; `{"slow": S}` takes
    its time.
    """

    max_batch_size = 8
    inputs = {"command": Tensor("BYTES", [1])}  # noqa: RUF012

    def forward(self, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the commands."""
        commands: list[dict[str, Any]] = [json.loads(item["command"][0]) for item in batch]
        for command in commands:
            if "die" in command and not Path(command["die"]).exists():
                Path(command["die"]).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(command.get("slow", 0.0))
        return commands


class Last(Worker):
    """Answers with the trace context of the request."""

    max_batch_size = 8
    outputs = {"context": Tensor("BYTES", [2])}  # noqa: RUF012

    def forward(self, batch: list[Any], requests: list[RequestInfo]) -> list[list[str]]:
        """Return `traceparent` and `tracestate`."""
        return [[request.traceparent, request.tracestate] for request in requests]
