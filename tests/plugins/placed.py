"""Says where it runs."""

import os
from typing import Any

from millstream import Worker


class Placed(Worker):
    def forward(self, batch: list[Any]) -> list[Any]:
        placed = {
            "device": self.device,
            "index": self.index,
            "version": self.version,
            "model_dir": str(self.model_dir),
            "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "omp": os.environ["OMP_NUM_THREADS"],
            "pgid": os.getpgid(0),
            "pid": os.getpid(),
            "cwd_on_path": "" in __import__("sys").path,
        }
        return [placed for _ in batch]
