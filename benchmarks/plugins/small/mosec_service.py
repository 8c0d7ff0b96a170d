"""The MOSEC service for the small workload; `BENCHMARK_STAGES` says how many stages it chains.

Run by the Python of MOSEC's own virtual environment.
"""

import os
from typing import Any

from mosec import Server, Worker


class Add(Worker):  # type: ignore[misc]  # mosec is not installed where types are checked
    """Add one to `{"x": n}`, with the codecs that MOSEC has by default."""

    def forward(self, data: list[Any]) -> list[Any]:
        """Take and return `{"x": int}` for each item."""
        return [{"x": item["x"] + 1} for item in data]


if __name__ == "__main__":
    server = Server()
    for _ in range(int(os.environ["BENCHMARK_STAGES"])):
        server.append_worker(Add, num=1, max_batch_size=32, max_wait_time=1)
    server.run()
