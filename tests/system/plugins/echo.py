"""Answers each request with its own body; a few bodies ask for something else."""

import time
from pathlib import Path
from typing import Any

from millstream import Reject, Worker


class Echo(Worker):
    """An object with one of the keys raise, reject, odd or gate asks for just that."""

    max_batch_size = 32

    def forward(self, batch: list[Any]) -> list[Any]:
        return [self._answer(item, of=len(batch)) for item in batch]

    def _answer(self, item: Any, *, of: int) -> Any:
        match item:
            case {"raise": message}:
                raise RuntimeError(message)
            case {"reject": message}:
                return Reject(message, status=422)
            case {"odd": _}:
                return object()  # cannot travel
            case {"gate": path}:
                while not Path(path).exists():
                    time.sleep(0.005)
            case {"name": name}:
                return {"name": name, "batch_size": of}
        return item
