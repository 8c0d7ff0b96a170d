"""Gives back what it got, doubled where that is an array."""

from typing import Any

import numpy as np

from millstream import Reject, Worker


class Echo(Worker):
    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Any]:
        return [answer(item) for item in batch]


def answer(item: Any) -> Any:
    if isinstance(item, np.ndarray):
        return item * 2
    return Reject("so it asked", status=418) if item == "reject" else item
