"""The same work on the same bytes: once of an upload, once of a declared tensor."""

from typing import Any

import numpy as np

from millstream import Tensor, Worker

SHAPE = [3, 224, 224]


class Bytes(Worker):
    """The bytes of an image to the sum of its last row."""

    max_batch_size = 32

    def decode(self, body: memoryview, content_type: str) -> Any:
        """An array, in place."""
        return np.frombuffer(body, np.float32).reshape(SHAPE)

    def forward(self, batch: list[Any]) -> list[float]:
        """Look at the end of each."""
        return [float(image[-1, -1].sum()) for image in batch]


class Tensors(Worker):
    """The same, of a tensor."""

    max_batch_size = 32
    inputs = {"image": Tensor("FP32", SHAPE)}  # noqa: RUF012
    outputs = {"sum": Tensor("FP32", [1])}  # noqa: RUF012

    def forward(self, batch: list[Any]) -> list[Any]:
        """Look at the end of each."""
        return [item["image"][-1, -1].sum().reshape(1) for item in batch]
